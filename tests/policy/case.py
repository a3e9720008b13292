"""What a case is: one change to a real stack that one rule of the pack must catch, or must leave alone, and how it is written.

Of the program: other settings, recorded through the whole program. Of the resource: the recording itself is
edited, as a hand or another program would write it. An edit that finds nothing to change is an error: it would test nothing.

One of the resource is a unit test; every case that breaks its rule is a mutant for the pack's own process, too (`make mutants`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import transform

Resources = dict[str, RecordedResource]
"""Resources of a stack by their names."""
Edit = Callable[[Resources], None]
Props = dict[str, Any]

HERE = "(the stack's namespace)"
DEPLOYMENT = "server-deployment"
POD = "spec.template.spec"
"""Where the pod of a Deployment or a Job is."""
CONTAINER = f"{POD}.containers.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change, and what its rule makes of it."""

    rule: str
    what: str
    """The change in words."""
    through: Literal["program", "resource"]
    stack: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the sections of the stack file, key by key; None is the file's null."""
    edits: tuple[Edit, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    """How the stack configures the rule; with the rule's own defaults it judges the other way."""
    unspeakable: str = ""
    """A secret that no verdict may repeat."""
    broken: bool = True

    @property
    def label(self) -> str:
        """How a person names it."""
        return f"{self.rule}: {self.what} ({self.through}, {self.stack})"

    @property
    def policy_config(self) -> dict[str, Any]:
        """The limits as the pack is told them."""
        return {self.rule: dict(self.limits)} if self.limits else {}


def of_program(
    rule: str,
    what: str,
    *,
    stack: str = "dev",
    settings: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    unspeakable: str = "",
) -> Case:
    """A stack with other settings. What the settings' own checks would refuse is let through."""
    return Case(
        rule=rule,
        what=what,
        through="program",
        stack=stack,
        settings=settings or {},
        limits=limits or {},
        unspeakable=unspeakable,
    )


def of_resource(
    rule: str,
    what: str,
    *edits: Edit,
    stack: str = "dev",
    unspeakable: str = "",
    **limits: Any,
) -> Case:
    """A stack whose rendered resources were changed afterwards."""
    return Case(
        rule=rule,
        what=what,
        through="resource",
        stack=stack,
        edits=edits,
        limits=limits,
        unspeakable=unspeakable,
    )


def sound(rule: str, what: str, *edits: Edit, stack: str = "dev", **limits: Any) -> Case:
    """A change that its rule leaves alone."""
    return replace(of_resource(rule, what, *edits, stack=stack, **limits), broken=False)


# Other resources.


def change(name: str, how: Callable[[Props], None]) -> Edit:
    """Other properties of one resource, in what the program asked for and in what came of it."""

    def edit(resources: Resources) -> None:
        one = resources[name]
        inputs, outputs = deepcopy(dict(one.inputs)), deepcopy(dict(one.outputs))
        how(inputs)
        if inputs == one.inputs:
            raise ValueError(f"the edit of {name} changes nothing")
        how(outputs)
        resources[name] = replace(one, inputs=inputs, outputs=outputs)

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
            del resources[name]

    return edit


def options(name: str, **changes: Any) -> Edit:
    """Other resource options: `protect=False`."""

    def edit(resources: Resources) -> None:
        before = resources[name]
        resources[name] = replace(before, **changes)
        if resources[name] == before:
            raise ValueError(f"the options of {name} are as they were")

    return edit


def twin(name: str, of: str, how: Callable[[Props], None]) -> Edit:
    """One more resource, like another one of the stack but for what `how` changes."""

    def edit(resources: Resources) -> None:
        one = resources[of]
        resources[name] = replace(one, name=name, urn=f"{one.urn.rpartition('::')[0]}::{name}")
        change(name, how)(resources)

    return edit


def new(name: str, type_: str, inputs: Props, *, beside: str = DEPLOYMENT) -> Edit:
    """One more resource, with the parent and the provider of another one; `HERE` in its inputs is the namespace."""

    def edit(resources: Resources) -> None:
        one = resources[beside]
        urn = f"{one.urn.rpartition('::')[0].removesuffix(one.type)}{type_}::{name}"
        space = resources["namespace-namespace"].inputs["metadata"]["name"]

        def in_place(leaf: Any) -> Any:
            return space if leaf == HERE else leaf

        resources[name] = RecordedResource(
            urn=urn,
            type=type_,
            name=name,
            parent=one.parent,
            provider=one.provider,
            inputs=transform(inputs, in_place),
            outputs=transform(inputs, in_place),
        )

    return edit


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
