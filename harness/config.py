"""TOML to frozen models, typo-proof: an unknown key is an error that names the nearest known one.

Messages are the project's own: they say what a key takes and what kind of value it got, never the value, which may be a secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from harness.errors import ConfigError
from harness.limits import Limit, limit_from_toml
from harness.toml import parse_toml
from harness.units import parse_quantity

SCHEMA = 1


class Model(BaseModel):
    """A table of a configuration file: frozen, and without room for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True, allow_inf_nan=False)


M = TypeVar("M", bound=Model)


def load(model: type[M], text: str, where: str) -> M:
    """Read ``text`` as ``model``. Raises ConfigError with one line: file, key, problem, nearest key."""
    loaded, problems = survey(model, text, where)
    if loaded is None:
        raise first_of(problems)
    return loaded


def survey(model: type[M], text: str, where: str) -> tuple[M | None, tuple[ConfigError, ...]]:
    """Read ``text`` as ``model``, or say everything that is wrong with it, unknown keys first. Raises nothing."""
    try:
        table = parse_toml(text)
    except ValueError as error:
        return None, (ConfigError(where, f"not valid TOML: {error}"),)
    schema = table.get("schema", SCHEMA)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        return None, (ConfigError(where, f"takes a whole number such as {SCHEMA}, not {kind_of(schema)}", key="schema"),)
    if schema > SCHEMA:
        newer = f"schema {schema} is newer than this version reads ({SCHEMA}); update bringup-harness"
        return None, (ConfigError(where, newer, key="schema"),)
    try:
        return model.model_validate(table), ()
    except ValidationError as error:
        found = error.errors(include_url=False)
        found.sort(key=lambda problem: problem["type"] != "extra_forbidden")
        return None, tuple(_as_config_error(model, problem, where) for problem in found)


def first_of(problems: tuple[ConfigError, ...]) -> ConfigError:
    """The first problem as one error that says how many more there are."""
    first, more = problems[0], len(problems) - 1
    if not more:
        return first
    prefix = f"{first.where}: {f'{first.key}: ' if first.key else ''}"
    said = str(first).removeprefix(prefix)
    return ConfigError(first.where, f"{said} (and {more} more)", key=first.key)


def kind_of(value: object) -> str:
    """What kind of TOML value it is, in a word: never the value itself."""
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a string"),
        ((list, tuple), "a list"),
        (Mapping, "a table"),
    )
    return next((word for kind, word in kinds if isinstance(value, kind)), "a date or time")


def quantity_in(unit: str) -> Any:
    """A field that takes ``"16 MiB"`` or a number without quotes and holds a float in ``unit``."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"takes a quantity such as {_sample(unit)}, not {kind_of(value)}")
        try:
            number = parse_quantity(value).in_unit(unit).value if isinstance(value, str) else float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"takes a finite number such as {_sample(unit)}")
        return number

    return BeforeValidator(read)


def limit_in(unit: str = "") -> Any:
    """A field that takes a bare number or a limit table and holds a Limit whose numbers are in ``unit``; "" for plain numbers."""
    return BeforeValidator(lambda value: limit_from_toml(value, unit, words=False))


AnyLimit = Annotated[Limit, BeforeValidator(limit_from_toml), PlainSerializer(str)]
"""A limit of words as well as of numbers without a unit."""

Number = Annotated[Limit, limit_in(), PlainSerializer(str)]
"""A limit of numbers without a unit."""

Seconds = Annotated[float, Field(gt=0), quantity_in("s")]
Bytes = Annotated[float, Field(gt=0), quantity_in("B")]


def _sample(unit: str) -> str:
    return {"s": '"45 s" or "15 min"', "B": '"256 MiB"'}.get(unit, f'"1 {unit}"')


_TAKES: Mapping[str, str] = {
    "string_type": "a string",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "mapping_type": "a table",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
}
"""What a key takes, by the type of pydantic's error."""

_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _as_config_error(model: type[Model], problem: Any, where: str) -> ConfigError:
    location: tuple[int | str, ...] = problem["loc"]
    kind, context = str(problem["type"]), problem.get("ctx") or {}
    key = ".".join(str(step) for step in location if not str(step).startswith("function-"))
    if kind == "extra_forbidden":
        return ConfigError(where, "unknown key", key=key, nearest=_near(str(location[-1]), _keys_at(model, location[:-1])))
    return ConfigError(where, _complaint(kind, context, problem["input"]), key=key)


def _complaint(kind: str, context: Mapping[str, Any], value: object) -> str:
    """One of pydantic's errors in our own words, without ``value``."""
    if kind == "value_error":
        text = str(context["error"])
        return f"{text[:1].lower()}{text[1:]}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"takes a number of {words} {context[bound]:g}"
    others = {"missing": "missing", "literal_error": f"takes one of {context.get('expected')}"}
    return others.get(kind) or f"takes {_TAKES.get(kind, 'something else')}, not {kind_of(value)}"


def _near(word: str, known: Iterator[str]) -> str:
    found = get_close_matches(word, list(known), n=1)
    return found[0] if found else ""


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
