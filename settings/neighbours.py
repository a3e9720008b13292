"""A name that two stack files of one folder take. The program itself reads its own file only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from facts.finding import Finding
from facts.names import cluster_name, stack_names, stack_namespace
from settings.problems import SettingsError
from settings.row import Row
from settings.sections.section import key
from settings.stack_file import read

_TAKEN = Row(
    "name-taken",
    "a cluster's name is unique in a project and region; pods are identified by project, namespace and service account in every cluster, "
    "so with one namespace the stacks would share access, and destroying one would revoke the other's",
    "another name, or none in both files",
)


def beside_others(root: Path, stack: str, config: Mapping[str, str]) -> tuple[Finding, ...]:
    """One problem for each name of `stack` that another stack file in `root` also takes. Unreadable files are skipped."""
    own, found = dict(_names(stack, config)), list[Finding]()
    for other in stack_names(root):
        if other == stack:
            continue
        try:
            taken = dict(_names(other, read(root, other).config))
        except (SettingsError, OSError, ValueError):
            continue  # reported when that stack is used
        found += [
            _TAKEN(path, name[-1], f"a name that Pulumi.{other}.yaml does not take")
            for path, name in own.items()
            if taken.get(path) == name
        ]
    return tuple(found)


def _names(stack: str, config: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Keys of names, each with its scope and the name. Reads only these keys, because the rest of the file may be wrong."""
    project, region = config.get("gcp:project", ""), config.get("gcp:region", "")
    yield "namespace", (project, config.get(key("namespace")) or stack_namespace(stack))
    platform, cluster = (json.loads(config.get(key(name)) or "{}") for name in ("platform", "cluster"))
    if not (isinstance(platform, dict) and platform.keys() & {"stack", "kubeconfig"}):
        given = cluster.get("name") if isinstance(cluster, dict) else None
        yield "cluster.name", (project, region, str(given or cluster_name(stack)))
