"""The BIOS attribute registry: what may be set, to what, and what setting one attribute does to others.

    Attribute   name, type, allowed values or bounds, read-only now
    Rule        if CurrentValue of A is (not) v, then property P of X is w
    Effects     what the rules make of a request, followed until nothing changes any more

On Dell "ReadOnly" is a state, not a type: it follows from rules over the current values, and under lockdown nearly everything says
it. So what may be written is judged by the rules over the values as they will be after the same request.
Shapes: BiosRegistry of R740 (iDRAC9 3.15, sailfishdell/sailfish) and R750 (iDRAC9 6.00 and 7.10, NVIDIA/libredfish).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.devices.redfish import dig, text
from harness.limits import Value
from harness.ports import Json

Values = Mapping[str, "Value | None"]


@dataclass(frozen=True)
class Attribute:
    """One attribute; ``choices`` are the allowed words of an Enumeration, ``low`` and ``high`` bound an Integer or a length.

    ``increment`` is the step of an Integer from its lower bound, 0 or 1 for any; ``is_hidden`` says that the setup menu hides it.
    """

    name: str
    type: str
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    pattern: str = ""
    is_read_only: bool = False
    increment: int = 0
    is_hidden: bool = False

    def objection(self, value: Value) -> str:
        """Why ``value`` cannot be written, or nothing: wrong type, not a choice, out of bounds."""
        match self.type:
            case "Password":
                return "is a password"
            case "Boolean":
                return "" if isinstance(value, bool) else f"takes true or false, not {value!r}"
            case "Integer":
                if isinstance(value, bool) or not isinstance(value, int):
                    return f"takes a whole number, not {value!r}"
                return self._bounds_objection(value, "") or self._increment_objection(value)
            case _:
                return self._text_objection(value)

    def _text_objection(self, value: Value) -> str:
        """An empty text means that nothing is set, whatever length is asked for: machines show empty CHAP secrets of at least 12
        characters and empty hashes of exactly 64 (NVIDIA/libredfish tests/mockups/dell)."""
        if value == "" and self.type != "Enumeration":
            return ""
        if not isinstance(value, str):
            return f'takes text, not {value!r}; write "{value}"'
        if self.type == "Enumeration":
            return "" if value in self.choices else f"takes one of {', '.join(self.choices)}, not {value!r}"
        if self.pattern and not _fits(self.pattern, value):
            return f"takes text like {self.pattern}, not {value!r}"
        return self._bounds_objection(len(value), " characters")

    def _increment_objection(self, value: int) -> str:
        if self.increment > 1 and (value - (self.low or 0)) % self.increment:
            return f"takes steps of {self.increment} from {self.low or 0}, not {value}"
        return ""

    def _bounds_objection(self, value: int, unit: str) -> str:
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            if self.low is None or self.high is None:
                bound = f"at least {self.low}" if self.high is None else f"at most {self.high}"
                return f"takes {bound}{unit}, not {value}"
            return f"takes {self.low} to {self.high}{unit}, not {value}"
        return ""


@dataclass(frozen=True)
class Condition:
    """``attribute`` has (or, ``negated``, has not) the value; ``joined`` is how it continues the one before: OR unless told."""

    attribute: str
    value: Json
    is_negated: bool = False
    joined: str = "OR"

    def holds(self, values: Values) -> bool:
        """True where it holds; an attribute that is not there has no value, so it holds neither way."""
        if self.attribute not in values:
            return False
        return _same(values[self.attribute], self.value) is not self.is_negated


@dataclass(frozen=True)
class Rule:
    """If the conditions hold, ``target``'s ``property`` (ReadOnly, CurrentValue, Value, Hidden) is ``result``."""

    target: str
    property: str
    result: Json
    conditions: tuple[Condition, ...]

    def reason(self) -> str:
        """The conditions in words: ``SysProfile is not Custom``."""
        words = [f"{each.attribute} is {'not ' if each.is_negated else ''}{each.value}" for each in self.conditions]
        joined = [words[0]] if words else []
        for condition, word in zip(self.conditions[1:], words[1:], strict=True):
            joined.append(f"{'and' if condition.joined == 'AND' else 'or'} {word}")
        return " ".join(joined)

    def holds(self, values: Values) -> bool:
        """True where the conditions hold, joined from left to right.

        Without MapTerms several conditions mean OR: HttpDev1Ip is read-only if HttpDev1EnDis is Disabled or its DHCP is Enabled.
        """
        held = False
        for number, condition in enumerate(self.conditions):
            holds = condition.holds(values)
            held = holds if number == 0 else (held and holds if condition.joined == "AND" else held or holds)
        return held


@dataclass(frozen=True)
class Effects:
    """What becomes of a request once the rules have had their say.

    ``values`` are all attributes then, ``forced`` those that the rules change by themselves with the ``Rule`` that does it, and
    ``against`` the requested ones that a rule would force to another value. ``is_settled`` is False where the rules chase each
    other in a circle, so that nobody can foretell where they stop.
    """

    values: Mapping[str, Value | None]
    forced: Mapping[str, Rule] = field(default_factory=dict)
    against: Mapping[str, Rule] = field(default_factory=dict)
    is_settled: bool = True


@dataclass(frozen=True)
class Registry:
    """All attributes by name, and the rules between them."""

    name: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def unlocked(self) -> Registry:
        """The same without what it calls read-only by itself: under lockdown that is nearly everything."""
        free = {name: replace(attribute, is_read_only=False) for name, attribute in self.attributes.items()}
        return replace(self, attributes=free)

    def is_password(self, name: str) -> bool:
        """True where the value of ``name`` is a password, whatever it is called."""
        return name in self.attributes and self.attributes[name].type == "Password"

    def is_read_only(self, name: str, before: Values, after: Values) -> bool:
        """True where ``name`` cannot be written in a request that leads from ``before`` to ``after``.

        Read-only now, but only for a rule that will not hold then, is writable: SysProfile=Custom and PcieAspmL1=Disabled go
        together (github.com/dell/dellemc-openmanage-ansible-modules/issues/495).
        """
        if self.lock(name, after) is not None:
            return True
        return self.attributes[name].is_read_only and self.lock(name, before) is None

    def lock(self, name: str, values: Values) -> Rule | None:
        """The rule that makes ``name`` read-only while ``values`` hold, None where none does."""
        return next(
            (
                rule
                for rule in self.rules
                if rule.target == name and rule.property == "ReadOnly" and rule.result is True and rule.holds(values)
            ),
            None,
        )

    def settle(self, before: Values, own: Mapping[str, Value]) -> Effects:
        """What the machine will hold once ``own`` was written over ``before``, followed to a fixed point.

        A rule that holds already and was never carried out (its target has another value now) is left asleep. No rule overrides
        what was asked for: such a one is in ``against``.
        """
        forcing = [rule for rule in self.rules if rule.property == "CurrentValue" and rule.target in before]
        asleep = {id(rule) for rule in forcing if rule.holds(before) and before[rule.target] != rule.result}
        awake = [rule for rule in forcing if id(rule) not in asleep]
        values: dict[str, Value | None] = {**before, **own}
        forced: dict[str, Rule] = {}
        against: dict[str, Rule] = {}
        for _ in range(len(awake) + 1):
            moved = False
            for rule in awake:
                if values[rule.target] == rule.result or not rule.holds(values):
                    continue
                if rule.target in own:
                    against.setdefault(rule.target, rule)
                    continue
                values[rule.target], forced[rule.target], moved = _plain(rule.result), rule, True
            if not moved:
                return Effects(values, _changed(before, values, forced), against)
        return Effects(values, _changed(before, values, forced), against, is_settled=False)

    def choices(self, name: str, after: Values) -> tuple[str, ...]:
        """The words ``name`` may take once ``after`` holds: a Value rule narrows the list."""
        allowed = self.attributes[name].choices
        for rule in self.rules:
            if rule.target == name and rule.property == "Value" and isinstance(rule.result, list) and rule.holds(after):
                narrowed = {text(entry, "ValueName") for entry in rule.result}
                allowed = tuple(word for word in allowed if word in narrowed)
        return allowed

    def freed(self, before: Values) -> Registry:
        """The same without the read-only marks that a rule explains while ``before`` holds: after a boot they follow the rules."""
        attributes = {
            name: replace(attribute, is_read_only=False)
            if attribute.is_read_only and self.lock(name, before) is not None
            else attribute
            for name, attribute in self.attributes.items()
        }
        return replace(self, attributes=attributes)


def parse_registry(body: Json) -> Registry:
    """Read an AttributeRegistry; entries of shapes nobody has seen are left out."""
    attributes = {
        attribute.name: attribute
        for entry in _entries(body, "RegistryEntries", "Attributes")
        if (attribute := _attribute(entry)).name
    }
    rules = [_rule(entry) for entry in _entries(body, "RegistryEntries", "Dependencies")]
    return Registry(text(body, "Id"), attributes, tuple(rule for rule in rules if rule.target and rule.conditions))


def _same(value: Json, told: Json) -> bool:
    """Equal as the registry means it: it may write the number of an Integer as text, and true is no 1."""
    if isinstance(value, bool) or isinstance(told, bool):
        return value is told
    return bool(value == told) or (value is not None and told is not None and str(value) == str(told))


def _changed(before: Values, values: Values, forced: Mapping[str, Rule]) -> dict[str, Rule]:
    """Without what a second rule put back to where it was."""
    return {name: rule for name, rule in forced.items() if values[name] != before.get(name)}


def _plain(value: Json) -> Value | None:
    return value if isinstance(value, str | int | float | bool) else None


def _attribute(entry: Json) -> Attribute:
    kind = text(entry, "Type")
    low, high = ("LowerBound", "UpperBound") if kind == "Integer" else ("MinLength", "MaxLength")
    return Attribute(
        text(entry, "AttributeName"),
        kind,
        tuple(text(choice, "ValueName") for choice in _entries(entry, "Value")),
        _whole(dig(entry, low)),
        _whole(dig(entry, high)),
        text(entry, "ValueExpression"),
        dig(entry, "ReadOnly") is True,
        _whole(dig(entry, "ScalarIncrement")) or 0,
        dig(entry, "Hidden") is True,
    )


def _rule(entry: Json) -> Rule:
    told = dig(entry, "Dependency")
    return Rule(
        text(told, "MapToAttribute") or text(entry, "DependencyFor"),
        text(told, "MapToProperty"),
        dig(told, "MapToValue"),
        tuple(
            Condition(
                text(condition, "MapFromAttribute"),
                dig(condition, "MapFromValue"),
                text(condition, "MapFromCondition") == "NEQ",
                text(condition, "MapTerms") or "OR",
            )
            for condition in _entries(told, "MapFrom")
            if text(condition, "MapFromProperty") == "CurrentValue"
        ),
    )


def _fits(pattern: str, value: str) -> bool:
    """A pattern that Python cannot read forbids nothing: the device has the last word."""
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _entries(body: Json, *steps: str) -> list[Json]:
    """The list at ``steps``; none where it is no list."""
    found = dig(body, *steps)
    return found if isinstance(found, list) else []
