"""Checks of a stack file against the other files of its folder. The program itself reads its own file only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from facts.finding import Finding
from facts.names import cluster_name, stack_names, stack_namespace
from settings.checks.placeholders import PLACEHOLDER_PROJECT
from settings.kubeconfig import read_kubeconfig
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE, key
from settings.stack_file import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A name that must be unique, as used by a stack file."""

    path: str
    """Key of the setting."""
    what: str
    scope: tuple[str, ...]
    """Scope in which the name must be unique: project, then region or zone."""
    name: str
    why: str
    """Consequence of a duplicate name."""


def names_taken(stack: str, config: Mapping[str, str]) -> Iterator[Taken]:
    """Unique names of a stack file. Reads only the keys of names, because the rest of the file may be wrong."""
    project, region = config.get("gcp:project", ""), config.get("gcp:region", "")
    yield Taken(
        path="namespace",
        what="namespace",
        scope=(project,),
        name=config.get(key("namespace")) or stack_namespace(stack),
        why="Workload Identity identifies a pod by project, namespace and service account, in every cluster: the stacks would share "
        "access to secrets and buckets, and destroying one would revoke the other's",
    )
    if not _section(config, "platform").keys() & {"stack", "kubeconfig"}:
        yield Taken(
            path="cluster.name",
            what="cluster",
            scope=(project, region),
            name=str(_section(config, "cluster").get("name") or cluster_name(stack)),
            why="a cluster's name is unique in a project and region: pulumi up would fail after creating network and bucket",
        )


def beside_others(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    """Problems with the other files in `root`: duplicate names, the platform's stack, KEDA, the kubeconfig."""
    return (
        *_wrong_host(root, stack, config),
        *_without_keda(root, config),
        *_wrong_kubeconfig(root, stack, config),
        *_taken_elsewhere(root, stack, config),
    )


def _without_keda(root: Path, config: Mapping[str, str]) -> Iterator[Finding]:
    """A stack that scales by KEDA and joins a cluster without KEDA, or without known KEDA."""
    named = _section(config, "platform").get("stack")
    if not isinstance(named, str) or _scaling_mode(config) == "none":
        return
    problem = partial(
        Finding,
        id="platform-needs-keda",
        subject=key("server.scaling.mode"),
        found=_scaling_mode(config),
        why="this stack adds a ScaledObject and no operator: the platform provides KEDA and its permission to read metrics",
    )
    host = _file_of(named)
    try:
        others = read(root, host).config if host else None
    except SettingsError:
        others = None
    if others is None:
        write = "cluster: {keda: true} in the platform's stack file"
        yield problem(allowed="any, if the cluster has KEDA", write=write, severity="warning")
    elif not _section(others, "cluster").get("keda", _scaling_mode(others) != "none"):
        write = f"cluster: {{keda: true}} in Pulumi.{host}.yaml, and pulumi up there first"
        yield problem(allowed=f"any, after {host} installs KEDA", write=write)


def _scaling_mode(config: Mapping[str, str]) -> object:
    """What KEDA scales the stack's servers by; "none" without it."""
    scaling = _section(config, "server").get("scaling")
    return scaling.get("mode", "none") if isinstance(scaling, Mapping) else "none"


def _wrong_kubeconfig(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    """A kubeconfig that the program would reject. Not checked with the placeholder project, which no kubeconfig matches."""
    file, project = _section(config, "platform").get("kubeconfig"), config.get("gcp:project", "")
    if not isinstance(file, str) or project == PLACEHOLDER_PROJECT:
        return ()
    try:
        read_kubeconfig(root / file, stack=stack, project=project, region=config.get("gcp:region", ""))
    except SettingsError as error:
        return error.problems
    return ()


def _file_of(named: str) -> str:
    """Name of the stack in `platform.stack`; empty for a stack of another project."""
    elsewhere = named.count("/") == 1 or named.partition("/")[2].rpartition("/")[0] not in ("", NAMESPACE)
    return "" if elsewhere else named.rpartition("/")[2]


def _wrong_host(root: Path, stack: str, config: Mapping[str, str]) -> Iterator[Finding]:
    """Problems with the stack in `platform.stack`, if its file exists: it must create a cluster in the same project."""
    named = _section(config, "platform").get("stack")
    if not isinstance(named, str) or not (host := _file_of(named)):
        return
    problem = partial(
        Finding, id="no-such-platform", subject=key("platform.stack"), found=named, write="platform: {stack: NAME}"
    )
    if host == stack:
        yield problem(
            allowed="another stack's name",
            why="a stack cannot join its own cluster",
            write="remove platform.stack",
        )
        return
    try:
        others = read(root, host).config
    except SettingsError:
        here = [name for name in stack_names(root) if name != stack]
        why = f"Pulumi.{host}.yaml does not exist, so that stack's cluster cannot be checked"
        yield problem(allowed=f"a deployed stack; in this folder: {', '.join(here)}", why=why, severity="note")
        return
    if other := _section(others, "platform").get("stack"):
        why = f"Pulumi.{host}.yaml creates no cluster: it joins the cluster of {other}"
        yield problem(allowed="a stack that creates a cluster", why=why, write=f"platform: {{stack: {other}}}")
    project, its = config.get("gcp:project"), others.get("gcp:project")
    if project != its:
        is_unset = its in (None, PLACEHOLDER_PROJECT)
        yield replace(
            problem(
                allowed=f"the project of {host}'s cluster, {'which is not set' if is_unset else its}",
                why="secrets and reservations must be in the project of the pods",
            ),
            subject="gcp:project",
            found=project,
            write=f"pulumi config set gcp:project {project or 'MY-PROJECT'} --stack {host}"
            if is_unset
            else f"gcp:project: {its}",
        )


def _taken_elsewhere(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    """One problem for each name of `stack` that another stack file in `root` also uses. Unreadable files are skipped."""
    own = {(taken.what, taken.scope, taken.name): taken for taken in names_taken(stack, config)}
    problems: list[Finding] = []
    for other in stack_names(root):
        if other == stack:
            continue
        for theirs in _names_in(root, other, _changed_at(root, other)):
            mine = own.get((theirs.what, theirs.scope, theirs.name))
            if mine is not None:
                problems.append(
                    Finding(
                        id="name-taken",
                        subject=key(mine.path),
                        found=mine.name,
                        allowed=f"a unique {mine.what} for each stack of {', '.join(filter(None, mine.scope))}",
                        why=f"Pulumi.{other}.yaml uses it. {mine.why}",
                        write=f"{mine.path.rpartition('.')[2]}: {mine.name}-2, or remove it in both files",
                    )
                )
    return tuple(problems)


@cache
def _names_in(root: Path, stack: str, changed_at: int) -> tuple[Taken, ...]:  # noqa: ARG001 - part of the key
    try:
        return tuple(names_taken(stack, read(root, stack).config))
    except (SettingsError, OSError, ValueError):
        return ()  # reported when that stack is used


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
