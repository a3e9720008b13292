"""Every leaf of every rendered resource, taken away and weakened in turn, and judged by every rule of the pack.

    python -m tests.policy.leaves           survivors that `harmless` does not list

A change counts as caught when a rule says something that it does not say of the unchanged stack.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from fleet.preview.policy_messages import seconds
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.values import UNKNOWN, reveal, transform
from rule import Resource, Rule, all_rules, with_defaults
from tests.lab.shapes import SHAPES, STACKS, recorded
from tests.policy.case import of_program
from tests.policy.cases.cost import WINDOW
from tests.policy.mutation import mutated

Path = tuple[str | int, ...]
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_CIDR = re.compile(r"\d+\.\d+\.\d+\.\d+/\d+")
_WEAKER = {
    "ClusterIP": "LoadBalancer",
    "IfNotPresent": "Always",
    "READ_ONLY_MANY": "READ_WRITE_SINGLE",
    "ReadOnlyMany": "ReadWriteOnce",
    "Retain": "Delete",
    "RuntimeDefault": "Unconfined",
    "Same": "All",
    "baseline": "privileged",
    "enforced": "inherited",
    "gke-l7-rilb": "gke-l7-regional-external-managed",
    "images": "snapshots",
    "restricted": "privileged",
    "specific": "any",
    "true": "false",
}
"""Words for the less careful choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One change to one resource, and the rules that saw it."""

    stack: str
    type: str
    name: str
    path: Path
    how: str
    caught_by: tuple[str, ...]

    @property
    def place(self) -> str:
        """Kind and path, the same for all items of a list, for pods of any object, and for labels and annotations alike."""
        steps = [str(one) if isinstance(one, str) else "#" for one in self.path]
        kind = self.type.rpartition(":")[2]
        if "template" in steps and "spec" in steps[steps.index("template") :]:
            at = steps.index("template")
            kind, steps = "Pod", steps[at + 1 :]
        return f"{kind} {'/'.join(steps)}"

    @property
    def label(self) -> str:
        """For a person: where it is and what was done."""
        return f"{self.place}: {self.how} ({self.name} of {self.stack})"


def recordings() -> Iterator[tuple[str, Recording]]:
    """The stacks and shapes, production first: what a later one says again is not changed again."""
    for name in ("cud", *(one for one in STACKS if one != "cud"), *SHAPES):
        yield name, recorded(name)
    yield "an ordered window", mutated(of_program("", "an ordered window", settings=WINDOW))


def leaves() -> Iterator[Leaf]:
    """Every change, judged."""
    seen: set[tuple[Any, ...]] = set()
    for stack, recording in recordings():
        resources = [_resource(one) for one in recording.resources if one.custom and one.type != STACK_REFERENCE_TYPE]
        normal = frozenset(_said(_OF_STACKS, resources))
        for place, one in enumerate(resources):
            plain = _plain(recording.by_urn[one.urn])
            alone = frozenset(_said(_OF_RESOURCES, one))
            for path, how, changed in _changes(one, plain):
                key = (one.type, one.name, path, how, repr(_at(plain, path)))
                if key in seen:
                    continue
                seen.add(key)
                rules = {rule for rule, _ in frozenset(_said(_OF_RESOURCES, changed)) - alone}
                others = [*resources[:place], changed, *resources[place + 1 :]]
                rules |= {rule for rule, _ in frozenset(_said(_OF_STACKS, others)) - normal}
                yield Leaf(
                    stack=stack, type=one.type, name=one.name, path=path, how=how, caught_by=tuple(sorted(rules))
                )


def _changes(one: Resource, plain: dict[str, Any]) -> Iterator[tuple[Path, str, Resource]]:
    for path, value in _paths(plain):
        yield path, "deleted", replace(one, props=_behind_proxy(_changed(plain, path)), parsed={})
        for how, weaker in _weaker(value):
            yield path, how, replace(one, props=_behind_proxy(_changed(plain, path, weaker)), parsed={})
    if one.protect:
        yield ("(protect)",), "off", replace(one, protect=False, parsed={})


def _weaker(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int | float) and value != 0:
        yield "zero", 0
    elif isinstance(value, str):
        if value in _WEAKER:
            yield _WEAKER[value], _WEAKER[value]
        if "@sha256:" in value and "\n" not in value:
            yield "without its digest", value.partition("@")[0]
        if _CIDR.fullmatch(value) and value != "0.0.0.0/0":
            yield "the world", "0.0.0.0/0"
        if value.startswith("roles/"):
            yield "owner", "roles/owner"
            yield "admin", f"{value.rpartition('.')[0] or value}.admin"
        if value.startswith(("principal", "serviceAccount:", "user:")):
            yield "everyone", "allUsers"


def _paths(value: Any, before: Path = ()) -> Iterator[tuple[Path, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key), item
        yield from _paths(item, (*before, key))


_GONE = object()


def _changed(plain: dict[str, Any], path: Path, value: Any = _GONE) -> dict[str, Any]:
    """A copy with another value at a path, or without it; what is not on the way is shared."""
    copy: Any = dict(plain)
    here = copy
    for step in path[:-1]:
        here[step] = dict(here[step]) if isinstance(here[step], dict) else list(here[step])
        here = here[step]
    if value is _GONE:
        del here[path[-1]]
    else:
        here[path[-1]] = deepcopy(value)
    return dict(copy)


def _at(plain: Any, path: Path) -> Any:
    for step in path:
        plain = plain[step] if step != "(protect)" else ""
    return plain


def _plain(one: RecordedResource) -> dict[str, Any]:
    known: dict[str, Any] = transform(reveal(dict(one.inputs)), lambda leaf: _UNKNOWN if leaf is UNKNOWN else leaf)
    return known


def _behind_proxy(props: dict[str, Any]) -> Any:
    return unknown_checking_proxy(props)


def _resource(one: RecordedResource) -> Resource:
    return Resource(
        type=one.type,
        name=one.name,
        urn=one.urn,
        props=_behind_proxy(_plain(one)),
        protect=one.protect,
        ignore_changes=one.ignore_changes,
        timeouts={operation: seconds(text) for operation, text in one.custom_timeouts.items()},
        dependencies=(*one.dependencies, one.parent),
    )


_RULES = tuple((one, with_defaults(one, {})) for one in all_rules())
_OF_RESOURCES = tuple((one, given) for one, given in _RULES if isinstance(one, Rule))
_OF_STACKS = tuple((one, given) for one, given in _RULES if not isinstance(one, Rule))


def _said(rules: Sequence[tuple[Any, Any]], subject: Resource | list[Resource]) -> Iterator[tuple[str, str]]:
    for rule, given in rules:
        try:
            for one in rule.judge(subject, given):
                yield rule.name, f"{one.urn} {one.what}"
        except UnknownValueError:
            continue


def main() -> int:
    """Print what lives and is not listed."""
    from tests.policy.harmless import excuse

    lives = [one for one in leaves() if not one.caught_by and excuse(one.place) is None]
    sys.stdout.writelines(f"{line}\n" for line in sorted({one.label for one in lives}))
    return 1 if lives else 0


if __name__ == "__main__":
    sys.exit(main())
