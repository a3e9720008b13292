"""Rules: pure functions over rendered resources, with their texts, level and settings.

Tests call rules with plain dicts. `server` turns each rule into a policy of the pack.

Reading a value that is unknown during a preview raises and stops the rule for that resource, which the engine reports. So read
only what the verdict needs, through `dig` and `has`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from facts.finding import Finding
from facts.lessons.lesson import Rule
from facts.lessons.lesson import Setting as Setting
from values import UnknownValueError

Settings = Mapping[str, Any]
"""Values of all declared settings of a rule by name; None where unset."""
_NO_SETTINGS: Final[Settings] = {}
_AT_STAKE: Final = "; at stake: "


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource as a rule sees it: its inputs in a resource rule, its outputs in a stack rule."""

    type: str
    """Pulumi's type token, e.g. `kubernetes:apps/v1:Deployment`."""
    props: Mapping[str, Any]
    name: str = ""
    urn: str = ""
    protect: bool = False
    """Pulumi's option of that name."""
    ignore_changes: tuple[str, ...] = ()
    """Paths whose changes Pulumi ignores: their values are those of the state, not the program's."""
    region: str = ""
    """Region of the stack, for prices; in resource rules as configured. Empty where unknown."""
    parsed: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Cache shared by all rules."""

    @cached_property
    def kind(self) -> str:
        """Last part of the type: `Deployment`. Of each provider: `Provider`."""
        return "Provider" if self.type.startswith("pulumi:providers:") else self.type.rpartition(":")[2]

    @cached_property
    def is_kubernetes(self) -> bool:
        """Whether this is an object of the Kubernetes API."""
        return self.type.startswith("kubernetes:")

    @property
    def label(self) -> str:
        """Name in messages: kind, and the resource's name where known."""
        return f"{self.kind} {self.name or self.urn.rpartition('::')[2]}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule(Rule):
    """A rule about a single resource."""

    judge: Callable[[Resource, Settings], Iterator[Finding]]
    """Makes its findings with `finding`. A warning is never mandatory, whatever the policy's level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule(Rule):
    """A rule about several resources together."""

    judge: Callable[[Sequence[Resource], Settings], Iterator[Finding]]
    """As of a ResourceRule, with the URN of the resource concerned."""


AnyRule = ResourceRule | StackRule


@lru_cache(maxsize=1)
def all_rules() -> tuple[AnyRule, ...]:
    """Every rule of the pack: the `RULES` of every module in `rules/`, in the order of the modules' names.

    Raises ValueError if two rules share a name.
    """
    import rules

    found: list[AnyRule] = []
    for module in sorted(pkgutil.iter_modules(rules.__path__), key=lambda one: one.name):
        found += importlib.import_module(f"rules.{module.name}").RULES
    names = [rule.name for rule in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rules are named {', '.join(twice)}")
    return tuple(found)


def with_defaults(rule: Rule, given: Mapping[str, Any]) -> Settings:
    """The given settings over the rule's defaults."""
    return (
        {setting.name: given.get(setting.name, setting.default) for setting in rule.settings}
        if rule.settings
        else _NO_SETTINGS
    )


def finding(found: str, *, urn: str = "", why: str = "", write: str = "", at_stake: str = "") -> Finding:
    """What a rule finds; `complete` adds the rule's own texts where these say nothing.

    `found`: path and value, "spec.strategy.rollingUpdate.maxSurge is 1". `urn`: the resource concerned, in stack rules. `at_stake`: the
    cost, where it cannot be read from the resource.
    """
    return Finding(id="", subject=urn, found=with_stake(found, at_stake), why=why, write=write)


def complete(rule: AnyRule, made: Finding, *, at_stake: str = "") -> Finding:
    """The finding with the rule's name, level and texts, and with the cost of the resource."""
    return replace(
        made,
        id=rule.name,
        severity="error" if rule.level == "mandatory" and made.severity == "error" else "warning",
        found=made.found if _AT_STAKE in made.found else with_stake(made.found, at_stake),
        why=made.why or rule.evidence,
        write=made.write or rule.fix,
    )


def with_stake(found: str, at_stake: str) -> str:
    """What was found, and what it costs."""
    return f"{found}{_AT_STAKE}{at_stake}" if at_stake else found


def dig(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and indexes, None where missing.

    Raises for a value that is unknown during a preview.
    """
    for step in path:
        if isinstance(value, Mapping):
            value = value[step] if has(value, step) else None
        elif isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return None
    return value


def known(value: Any, *path: str | int) -> Any:
    """The value at a path, None where missing or unknown during a preview: for what may be judged in the update alone."""
    try:
        return dig(value, *path)
    except UnknownValueError:
        return None


def has(mapping: Any, key: Any) -> bool:
    """Whether a key exists; its value is not read."""
    return isinstance(mapping, Mapping) and key in mapping


def listed(value: Any) -> Iterable[Any]:
    """The items of a list; empty if it is not a list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        # By index, so that an unknown item raises only when it is reached.
        return (value[index] for index in range(len(value)))
    return ()


def mapped(value: Any) -> Mapping[str, Any]:
    """The mapping itself; empty if it is not a mapping."""
    return value if isinstance(value, Mapping) else {}
