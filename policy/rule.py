"""What a rule is: a pure function over rendered resources, with what it needs to be understood, configured and obeyed.

Nothing here knows Pulumi's policy SDK: rules run in tests as plain functions over plain dicts. `analyzer` turns each
rule into a policy of the pack.

Values that a preview cannot know raise when they are read, and end the rule for that resource: the engine then says that
it could not be judged. So read only what the verdict needs, through `dig` and `has`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

from settings.rules import verdict
from settings.rules.lesson import Level, Severity
from settings.rules.lesson import Setting as Setting
from settings.rules.secrets_in_text import without_secrets

ON_PURPOSE: Final = "vllm-fleet.dev/on-purpose"
"""Annotation: comma-separated names of the rules that a workload breaks on purpose."""
REPRODUCES: Final = "vllm-fleet.dev/reproduces"
"""Annotation: the published result that a workload reproduces. `ON_PURPOSE` counts only beside it."""


Settings = Mapping[str, Any]
"""Values of a rule's settings by name. Every declared setting is there; None where it is unset."""
_NO_SETTINGS: Final[Settings] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What Pulumi itself was told about a resource."""

    protect: bool = False
    ignore_changes: tuple[str, ...] = ()
    delete_before_replace: bool = False


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource as a rule sees it: its inputs in a resource rule, its outputs in a stack rule."""

    type: str
    """Pulumi's type token, e.g. `kubernetes:apps/v1:Deployment`."""
    props: Mapping[str, Any]
    name: str = ""
    urn: str = ""
    options: Options = field(default_factory=Options)
    parent: str = ""
    """URN; only in stack rules."""
    dependencies: tuple[str, ...] = ()
    """URNs; only in stack rules."""
    parsed: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What readers of this resource have worked out once for all rules."""

    @cached_property
    def kind(self) -> str:
        """Last part of the type: `Deployment`."""
        return self.type.rpartition(":")[2]

    @cached_property
    def is_kubernetes(self) -> bool:
        """Whether this is an object of the Kubernetes API."""
        return self.type.startswith("kubernetes:")

    @property
    def label(self) -> str:
        """How a message names it: kind and the object's own name where it is known."""
        return f"{self.kind} {self.name or self.urn.rpartition('::')[2]}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a rule found. `message` adds what the rule knows by itself."""

    what: str
    """What is wrong where, with the value found: "spec.strategy.rollingUpdate.maxSurge is 1"."""
    why: str = ""
    """The reason with its figure, where it depends on the value. Default: the rule's evidence."""
    fix: str = ""
    """What to write instead, where it depends on the value. Default: the rule's fix."""
    urn: str = ""
    """The resource concerned, in stack rules."""
    at_stake: str = ""
    """Money, where the resource itself does not tell: "$391.32 an hour (12 A4 nodes, Spot)"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    name: str
    """kebab-case; the same as the lesson of the settings where there is one."""
    subject: str
    """Heading in the README: serving, capacity, storage, network, rollout, security, cost."""
    statement: str
    """The rule in one line, as a fact about good resources."""
    evidence: str
    """Why: the figure and its source, and why the level is what it is."""
    fix: str
    level: Level
    severity: Severity
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(_Described):
    """A rule that one resource can break by itself."""

    judge: Callable[[Resource, Settings], Iterator[Finding]]
    lesson: str = ""
    """Name under which a workload that reproduces a published result may break it on purpose: see `ON_PURPOSE`. Empty:
    nothing excuses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRule(_Described):
    """A rule about several resources together."""

    judge: Callable[[Sequence[Resource], Settings], Iterator[Finding]]


AnyRule = Rule | StackRule


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


def with_defaults(rule: AnyRule, given: Mapping[str, Any]) -> Settings:
    """The rule's settings: what was given over its defaults."""
    return {one.name: given.get(one.name, one.default) for one in rule.settings} if rule.settings else _NO_SETTINGS


def message(rule: AnyRule, finding: Finding, *, at_stake: str = "") -> str:
    """What a person reads: what, why, fix, money."""
    return without_secrets(
        verdict.encode(
            verdict.Verdict(
                what=finding.what,
                why=finding.why or rule.evidence,
                fix=finding.fix or rule.fix,
                at_stake=finding.at_stake or at_stake,
            )
        )
    )


def dig(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and indexes, or None where something on the way is missing.

    Raises for a value that is unknown during a preview, as any reading does.
    """
    for step in path:
        if isinstance(value, Mapping):
            value = value[step] if has(value, step) else None
        elif isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str):
            value = value[step] if -len(value) <= step < len(value) else None
        else:
            return None
    return value


def has(mapping: Any, key: Any) -> bool:
    """Whether a key is there, without reading its value: `in` would, and an unknown value raises."""
    return isinstance(mapping, Mapping) and key in set(mapping)


def listed(value: Any) -> Iterable[Any]:
    """The items of a list, none where there is no list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        # By index: the items are read one by one, so an unknown one raises only when its turn comes.
        return (value[index] for index in range(len(value)))
    return ()


def mapped(value: Any) -> Mapping[str, Any]:
    """The mapping itself, an empty one where there is none."""
    return value if isinstance(value, Mapping) else {}
