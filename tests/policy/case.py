"""What a case is: one change to a recorded stack that one rule of the pack must catch, or must leave alone, and how it is written.

The recording is of the real program, and an edit changes what is there: a type, name or label that moved, and that a rule still compares
with, fails the rule's cases. An edit that finds nothing to change is an error: it would test nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.values import transform
from tests.support.stacks import recorded_stack

Resources = dict[str, RecordedResource]
"""Resources of a stack by their logical names."""
Edit = Callable[[Resources], None]
Props = dict[str, Any]

HERE = "(the stack's namespace)"

# Resources as `find` finds them, by their kind and as little of their name as tells them apart.
BUCKET = "Bucket/results"
CLUSTER = "Cluster"
DEPLOYMENT = "Deployment/server"
FIREWALL = "Firewall"
NODES_GRANT = "IAMMember/nodes"
PROXY_SUBNET = "Subnetwork/proxies"
QUOTA = "ResourceQuota"
SCALER = "ScaledObject"
SERVICE = "Service/qwen35-server"

POD = "spec.template.spec"
"""Where the pod of a Deployment or a Job is."""
CONTAINER = f"{POD}.containers.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change, and what its rule makes of it."""

    rule: str
    what: str
    """The change in words."""
    stack: str
    edits: tuple[Edit, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    """How the stack configures the rule; with the rule's own defaults it judges the other way."""
    unspeakable: str = ""
    """A secret that no verdict may repeat."""
    broken: bool = True

    @property
    def label(self) -> str:
        """How a person names it."""
        return f"{self.rule}: {self.what} ({self.stack})"

    @property
    def config(self) -> dict[str, Any]:
        """The limits as a policy config file has them."""
        return {self.rule: dict(self.limits)} if self.limits else {}

    @property
    def recording(self) -> Recording:
        """The stack with the change. Raises where an edit finds nothing to change."""
        return edited(self.stack, *self.edits)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that cases are of, and the stack that they change unless they name another."""

    name: str
    stack: str = "dev"

    def broken(self, what: str, *edits: Edit, stack: str = "", unspeakable: str = "", **limits: Any) -> Case:
        """A change that the rule must find."""
        of = stack or self.stack
        return Case(rule=self.name, what=what, stack=of, edits=edits, limits=limits, unspeakable=unspeakable)

    def sound(self, what: str, *edits: Edit, stack: str = "", **limits: Any) -> Case:
        """A change that the rule leaves alone."""
        return replace(self.broken(what, *edits, stack=stack, **limits), broken=False)


def broken(rule: str, what: str, *edits: Edit, **more: Any) -> Case:
    """A change that its rule must find: a rule's only one, or one of its few."""
    return Rule(rule).broken(what, *edits, **more)


def sound(rule: str, what: str, *edits: Edit, **more: Any) -> Case:
    """A change that its rule leaves alone."""
    return Rule(rule).sound(what, *edits, **more)


@cache
def edited(stack: str, *edits: Edit) -> Recording:
    """A recorded stack with changes. Tests must not change it: whoever asks for the same edits gets the same."""
    recording = recorded_stack(stack)
    resources = {one.name: one for one in recording.resources}
    for edit in edits:
        edit(resources)
    return replace(recording, resources=tuple(resources.values()))


def find(resources: Resources, target: str) -> str:
    """Logical name of the one resource of a kind, `KIND` or `KIND/NAME`: its name in the cluster, else a part of its logical name.

    A logical name is found as it is. Raises LookupError for none or several.
    """
    kind, _, name = target.partition("/")
    if target in resources:
        return target
    of_kind = {key: one for key, one in resources.items() if one.custom and one.type.endswith(f":{kind}")}
    exact = [key for key, one in of_kind.items() if dict(one.inputs).get("metadata", {}).get("name") == name]
    found = exact or [key for key in of_kind if name in key]
    if len(found) != 1:
        raise LookupError(f"{target}: {found}")
    return found[0]


# Other resources.


def change(name: str, how: Callable[[Props], None]) -> Edit:
    """Other properties of one resource, in what the program asked for and in what came of it."""

    def edit(resources: Resources) -> None:
        key = find(resources, name)
        one = resources[key]
        inputs, outputs = deepcopy(dict(one.inputs)), deepcopy(dict(one.outputs))
        how(inputs)
        if inputs == one.inputs:
            raise ValueError(f"the edit of {name} changes nothing")
        how(outputs)
        resources[key] = replace(one, inputs=inputs, outputs=outputs)

    return edit


def put(name: str, path: str, *keys: str, value: Any) -> Edit:
    """Another value at a dotted path; `keys` go on from there as they are, for keys that have dots of their own."""
    return change(name, lambda props: set_at(props, path, *keys, value=value))


def drop(name: str, path: str, *keys: str) -> Edit:
    """Nothing at a path. Raises KeyError or IndexError where there was nothing."""

    def how(props: Props) -> None:
        parent, last = _parent(props, path, *keys)
        del parent[last]

    return change(name, how)


def append(name: str, path: str, value: Any) -> Edit:
    """One more item in a list, which is made where there is none."""

    def how(props: Props) -> None:
        parent, last = _parent(props, path)
        parent[last] = [*parent.get(last, ()), deepcopy(value)]

    return change(name, how)


def flag(name: str, *flags: str) -> Edit:
    """Arguments of a vLLM server; each takes the place of the option it sets, or comes last."""
    return change(name, lambda props: set_flags(get(props, f"{CONTAINER}.args"), *flags))


def variable(name: str, variable_name: str, value: str | None) -> Edit:
    """An environment variable of the first container; None takes it out."""

    def how(props: Props) -> None:
        container = get(props, CONTAINER)
        others = [one for one in container.get("env", ()) if one["name"] != variable_name]
        container["env"] = others if value is None else [*others, {"name": variable_name, "value": value}]

    return change(name, how)


def delete(*names: str) -> Edit:
    """A stack without these resources."""

    def edit(resources: Resources) -> None:
        for name in names:
            del resources[find(resources, name)]

    return edit


def options(name: str, **changes: Any) -> Edit:
    """Other resource options: `protect=False`."""

    def edit(resources: Resources) -> None:
        key = find(resources, name)
        before = resources[key]
        resources[key] = replace(before, **changes)
        if resources[key] == before:
            raise ValueError(f"the options of {name} are as they were")

    return edit


def twin(name: str, of: str, how: Callable[[Props], None]) -> Edit:
    """One more resource, like another one of the stack but for what `how` changes."""

    def edit(resources: Resources) -> None:
        one = resources[find(resources, of)]
        resources[name] = replace(one, name=name, urn=f"{one.urn.rpartition('::')[0]}::{name}")
        change(name, how)(resources)

    return edit


def new(name: str, type_: str, inputs: Props) -> Edit:
    """One more resource, for what no stack makes; `HERE` in its inputs is the namespace."""

    def edit(resources: Resources) -> None:
        server = resources[find(resources, DEPLOYMENT)]
        space = server.inputs["metadata"]["namespace"]
        props = transform(inputs, lambda leaf: space if leaf == HERE else leaf)
        urn = f"{server.urn.rpartition('::')[0].removesuffix(server.type)}{type_}::{name}"
        resources[name] = replace(server, urn=urn, type=type_, name=name, inputs=props, outputs=props, protect=False)
        resources[name] = replace(resources[name], ignore_changes=(), dependencies=())

    return edit


def google(kind: str, **props: Any) -> Edit:
    """One more resource of Google Cloud, by module and kind: `compute/Disk`."""
    module, _, name = kind.partition("/")
    return new("by-hand", f"gcp:{module}/{name[0].lower()}{name[1:]}:{name}", props)


# Properties.


def get(props: Any, path: str, *keys: str) -> Any:
    """The value at a path. Raises KeyError or IndexError."""
    parent, last = _parent(props, path, *keys)
    return parent[last]


def set_at(props: Any, path: str, *keys: str, value: Any) -> None:
    """Put a value at a path; maps on the way are made where there are none."""
    parent, last = _parent(props, path, *keys)
    parent[last] = deepcopy(value)


def set_flags(words: list[str], *flags: str) -> None:
    """Change a server's arguments in place."""
    for one in flags:
        option = one.partition("=")[0]
        places = [index for index, word in enumerate(words) if word.partition("=")[0] == option]
        if places:
            words[places[0]] = one
        else:
            words.append(one)


def _parent(props: Any, path: str, *keys: str) -> tuple[Any, Any]:
    steps: list[Any] = [int(step) if step.isdigit() else step for step in path.split(".")]
    steps += keys
    *way, last = steps
    for step in way:
        props = props.setdefault(step, {}) if isinstance(props, dict) else props[step]
    return props, last
