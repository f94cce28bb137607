"""TOML to frozen models, typo-proof: an unknown key is an error that names the nearest known one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from harness.errors import ConfigError
from harness.limits import Limit, limit_from_toml
from harness.units import parse_quantity

SCHEMA = 1


class Model(BaseModel):
    """A table of a configuration file: frozen, and without room for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True)


M = TypeVar("M", bound=Model)


def load(model: type[M], text: str, where: str) -> M:
    """Read ``text`` as ``model``. Raises ConfigError with one line: file, key, problem, nearest key."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(where, f"not valid TOML: {error}") from None
    schema = table.get("schema", SCHEMA)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ConfigError(where, f"{schema!r} is not a schema number", key="schema")
    if schema > SCHEMA:
        raise ConfigError(
            where, f"schema {schema} is newer than this version reads ({SCHEMA}); update bringup-harness", key="schema"
        )
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise _as_config_error(model, error, where) from None


def quantity_in(unit: str) -> Any:
    """A field that takes ``"16 MiB"`` or a bare number and holds a float in ``unit``."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{value!r} is not a quantity in {unit}")
        if not isinstance(value, str):
            return float(value)
        quantity = parse_quantity(value)
        return (quantity if quantity.unit == "" else quantity.to(unit)).value

    return BeforeValidator(read)


def limit_in(unit: str = "") -> Any:
    """A field that takes a bare value or a limit table and holds a Limit whose numbers are in ``unit``."""
    return BeforeValidator(lambda value: limit_from_toml(value, unit))


AnyLimit = Annotated[Limit, limit_in(), PlainSerializer(str)]
Seconds = Annotated[float, quantity_in("s")]
Bytes = Annotated[float, quantity_in("B")]


def _as_config_error(model: type[Model], error: ValidationError, where: str) -> ConfigError:
    problems = error.errors(include_url=False, include_context=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    location = first["loc"]
    key = ".".join(str(step) for step in location if step != "function-before")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        near = get_close_matches(str(location[-1]), list(_keys_at(model, location[:-1])), n=1)
        return ConfigError(where, f"unknown key{more}", key=key, nearest=near[0] if near else "")
    if first["type"] == "missing":
        return ConfigError(where, f"missing{more}", key=key)
    text = first["msg"].removeprefix("Value error, ")
    return ConfigError(where, f"{text[:1].lower()}{text[1:]}{more}", key=key)


def _keys_at(model: type[Model], location: tuple[int | str, ...]) -> Iterator[str]:
    """The keys that the table at ``location`` may have."""
    current: type[BaseModel] | None = model
    for step in location:
        if isinstance(step, int) or current is None:
            continue
        found = next((field for name, field in current.model_fields.items() if step in (name, field.alias)), None)
        current = None if found is None else _model_in(found.annotation)
    for name, field in (current.model_fields if current is not None else {}).items():
        yield field.alias or name


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None
