"""What the other files of the same folder say against a stack file. The program never asks: it knows its own file alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from settings.kubeconfig import read_kubeconfig
from settings.names import cluster_name, stack_names, stack_namespace
from settings.problems import Problem, SettingsError
from settings.sections.section import NAMESPACE, key
from settings.stack import PLACEHOLDER_PROJECT
from settings.stack_file import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A name that there can be once, as a stack file takes it."""

    path: str
    """Key of the setting, whether written or its default."""
    what: str
    scope: tuple[str, ...]
    """Where the name can be once: project, then region or zone."""
    name: str
    why: str
    """What a second stack of that name does."""


def names_taken(stack: str, config: Mapping[str, str]) -> Iterator[Taken]:
    """What a stack file takes. Reads only what names need: the rest of the file may be wrong."""
    project, region = config.get("gcp:project", ""), config.get("gcp:region", "")
    yield Taken(
        path="namespace",
        what="namespace",
        scope=(project,),
        name=config.get(key("namespace")) or stack_namespace(stack),
        why="Workload Identity knows a pod by project, namespace and service account, on whatever cluster: the stacks would share "
        "grants on secrets and buckets, and destroying one takes the other's away; on one cluster it takes all objects",
    )
    if not _section(config, "platform").keys() & {"stack", "kubeconfig"}:
        yield Taken(
            path="cluster.name",
            what="cluster",
            scope=(project, region),
            name=str(_section(config, "cluster").get("name") or cluster_name(stack)),
            why="GKE has a cluster's name once in a project and region: pulumi up fails after network and bucket are made",
        )
    capacity, zones = _section(config, "capacity"), _parsed(config, "zones")
    if capacity.get("create") and isinstance(zones, list):
        yield Taken(
            path="capacity.reservation",
            what="reservation to create",
            scope=(project, *map(str, zones[:1])),
            name=str(capacity.get("reservation")),
            why="Compute Engine has a reservation's name once in a project and zone",
        )


def beside_others(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Problem, ...]:
    """What the other files in `root` say against this one: names that are taken, a host that is none or has no KEDA, a kubeconfig."""
    return (
        *_wrong_host(root, stack, config),
        *_without_keda(root, config),
        *_wrong_kubeconfig(root, stack, config),
        *_taken_elsewhere(root, stack, config),
    )


def _without_keda(root: Path, config: Mapping[str, str]) -> Iterator[Problem]:
    """Nobody who acts on the ScaledObject of a stack that joins another's cluster, or nobody that is known here."""
    named = _section(config, "platform").get("stack")
    if not isinstance(named, str) or not _by_keda(config):
        return
    told = partial(
        Problem,
        id="platform-needs-keda",
        path=key("server.scaling.mechanism"),
        value="keda",
        why="this stack adds a ScaledObject and no operator: KEDA and its right to read metrics are the platform's",
    )
    host = _file_of(named)
    try:
        others = read(root, host).config if host else None
    except SettingsError:
        others = None
    if others is None:
        write = "cluster: {keda: true} in the platform's stack file"
        yield told(allowed="keda, when the cluster has it", write=write, level="finding")
    elif not _section(others, "cluster").get("keda", _by_keda(others)):
        write = f"cluster: {{keda: true}} in Pulumi.{host}.yaml, and pulumi up there first"
        yield told(allowed=f"keda, once {host} installs it", write=write)


def _by_keda(config: Mapping[str, str]) -> bool:
    """Whether KEDA scales the stack's own servers."""
    scaling = _section(config, "server").get("scaling")
    return isinstance(scaling, Mapping) and scaling.get("mode", "none") != "none" and scaling.get("mechanism") != "gke"


def _wrong_kubeconfig(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Problem, ...]:
    """A kubeconfig that the program would refuse, too. With the placeholder project every one names another."""
    file, project = _section(config, "platform").get("kubeconfig"), config.get("gcp:project", "")
    if not isinstance(file, str) or project == PLACEHOLDER_PROJECT:
        return ()
    try:
        read_kubeconfig(root / file, stack=stack, project=project, region=config.get("gcp:region", ""))
    except SettingsError as error:
        return error.problems
    return ()


def _file_of(named: str) -> str:
    """The stack whose file, if here, is meant by `platform.stack`; empty for one of another project."""
    elsewhere = named.count("/") == 1 or named.partition("/")[2].rpartition("/")[0] not in ("", NAMESPACE)
    return "" if elsewhere else named.rpartition("/")[2]


def _wrong_host(root: Path, stack: str, config: Mapping[str, str]) -> Iterator[Problem]:
    """The stack that `platform.stack` names, where its file is here: it must have a cluster of its own, in the same project."""
    named = _section(config, "platform").get("stack")
    if not isinstance(named, str) or not (host := _file_of(named)):
        return
    told = partial(
        Problem, id="no-such-platform", path=key("platform.stack"), value=named, write="platform: {stack: NAME}"
    )
    if host == stack:
        yield told(
            allowed="another stack's name",
            why="a stack that joins its own cluster could never be created",
            write="no platform.stack",
        )
        return
    try:
        others = read(root, host).config
    except SettingsError:
        here = [one for one in stack_names(root) if one != stack]
        why = f"there is no Pulumi.{host}.yaml here: nothing can be said about that stack's cluster"
        yield told(allowed=f"a stack that is up; here are {', '.join(here)}", why=why, level="notice")
        return
    if other := _section(others, "platform").get("stack"):
        why = f"Pulumi.{host}.yaml makes no cluster: it joins that of {other}"
        yield told(allowed="a stack that makes its own cluster", why=why, write=f"platform: {{stack: {other}}}")
    project, its = config.get("gcp:project"), others.get("gcp:project")
    if project != its:
        yield replace(
            told(
                allowed=f"{its}, where the cluster of {host} is",
                why="secrets and reservations of one project do not serve the other's pods",
            ),
            path="gcp:project",
            value=project,
            write=f"gcp:project: {its}",
        )


def _taken_elsewhere(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Problem, ...]:
    """A refusal for each name of `stack` that another stack file in `root` takes, too. A file that cannot be read takes none."""
    own = {(one.what, one.scope, one.name): one for one in names_taken(stack, config)}
    problems: list[Problem] = []
    for other in stack_names(root):
        if other == stack:
            continue
        for one in _names_in(root, other, _changed_at(root, other)):
            mine = own.get((one.what, one.scope, one.name))
            if mine is not None:
                problems.append(
                    Problem(
                        id="name-taken",
                        path=key(mine.path),
                        value=mine.name,
                        allowed=f"a {mine.what} of its own for each stack of {', '.join(filter(None, mine.scope))}",
                        why=f"Pulumi.{other}.yaml takes it. {mine.why}",
                        write=f"{mine.path.rpartition('.')[2]}: {mine.name}-2, or leave it out in both files",
                    )
                )
    return tuple(problems)


@cache
def _names_in(root: Path, stack: str, changed_at: int) -> tuple[Taken, ...]:  # noqa: ARG001 - part of the key
    try:
        return tuple(names_taken(stack, read(root, stack).config))
    except (SettingsError, OSError, ValueError):
        return ()  # whoever uses that stack is told; this one goes on


def _changed_at(root: Path, stack: str) -> int:
    try:
        return (root / f"Pulumi.{stack}.yaml").stat().st_mtime_ns
    except OSError:
        return 0


def _section(config: Mapping[str, str], name: str) -> Mapping[str, Any]:
    section = _parsed(config, name)
    return section if isinstance(section, Mapping) else {}


def _parsed(config: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(config.get(key(name)) or "{}")
    except ValueError:
        return None
