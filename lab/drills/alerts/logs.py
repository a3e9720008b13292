"""Google's log entries for events of a rehearsal, and filters of log-based metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from facts.names import KEDA_NAMESPACE
from facts.signals import logs
from lab.cloud.spot import PREEMPTED

if TYPE_CHECKING:
    from facts.signals.model import LogSignal
    from lab.results.timeline import Moment
    from settings.stack import Settings

Entry = Mapping[str, Any]


def entry_of(moment: Moment, settings: Settings, cluster: str | None) -> Entry | None:
    """The log entry of a moment, if any. Sources: GKE docs, "View cluster autoscaler events"; Compute Engine docs, "Detect if a
    VM was preempted".
    """
    if moment.lane == "capacity" and moment.subject.startswith("scale.up.error."):
        result = {"results": [{"errorMsg": {"messageId": moment.subject}}]}
        resource = {"type": "k8s_cluster", "labels": {"cluster_name": cluster}}
        return {
            "logName": _log(settings, "container.googleapis.com/cluster-autoscaler-visibility"),
            "resource": resource,
            "jsonPayload": {"resultInfo": result},
        }
    if moment.lane == "node" and moment.text.startswith(PREEMPTED):
        zone = settings.zones[0]
        return {
            "logName": _log(settings, "cloudaudit.googleapis.com/system_event"),
            "resource": {"type": "gce_instance", "labels": {"zone": zone}},
            "protoPayload": {
                "methodName": "compute.instances.preempted",
                "resourceName": f"projects/{settings.project}/zones/{zone}/instances/{moment.subject}",
            },
        }
    return None


def entry_of_fallback(scaled_object: str, settings: Settings, cluster: str | None) -> Entry:
    """KEDA's log entry for a fallback in place of a metric. Source: keda 2.20.2, pkg/fallback/fallback.go, doFallback."""
    scaled = {"scaledObject.Namespace": settings.namespace, "scaledObject.Name": scaled_object}
    return {
        "logName": _log(settings, "stderr"),
        "resource": {
            "type": "k8s_container",
            "labels": {"cluster_name": cluster, "namespace_name": KEDA_NAMESPACE},
        },
        "textPayload": f"INFO\tfallback\t{logs.FALLS_BACK}\t{json.dumps(scaled)}",
    }


def labels_of(signal: LogSignal, entry: Entry) -> dict[str, str]:
    """Labels that a log-based metric takes from an entry. Raises ValueError unless each is `EXTRACT(path)` of what the entry has."""
    labels = {}
    for label, extractor in signal.labels.items():
        match = re.fullmatch(r"EXTRACT\(([\w.]+)\)", extractor)
        values = [] if match is None else list(_values(entry, match[1].split(".")))
        if len(values) != 1:
            raise ValueError(f"unsupported extractor: {extractor}")
        labels[label] = values[0]
    return labels


def _log(settings: Settings, id_: str) -> str:
    return f"projects/{settings.project}/logs/{quote(id_, safe='')}"


def matches(filter_: str, entry: Entry) -> bool:
    """Whether an entry matches a filter.

    One clause per line: `path="x"`, `path:"x"` (contains), `path=("x" OR "y")`, `log_id("x")`, `"x"`.

    Raises ValueError for a clause of another kind.
    """
    return all(_holds(line.strip(), entry) for line in filter_.splitlines())


def _holds(clause: str, entry: Entry) -> bool:
    text = r'"(?:[^"\\]|\\.)*"'
    match = re.fullmatch(rf"(?:([\w.]+)([:=])|(log_id))?(\()?({text}(?: OR {text})*)\)?", clause)
    if match is None:
        raise ValueError(f"unsupported clause: {clause}")
    path, operator, log_id, _, texts = match.groups()
    wanted = [re.sub(r"\\(.)", r"\1", one[1:-1]) for one in re.findall(text, texts)]
    if log_id:
        return str(entry["logName"]).endswith(f"/logs/{quote(wanted[0], safe='')}")
    found = list(_values(entry, path.split(".") if path else ["*"]))
    return any(text == one if operator == "=" else text in one for text in wanted for one in found)


def _values(part: Any, path: list[str]) -> Iterator[str]:
    """Strings at a path; lists are searched, and `*` matches anywhere."""
    if isinstance(part, list):
        for one in part:
            yield from _values(one, path)
    elif isinstance(part, Mapping):
        for name in part if path == ["*"] else path[:1]:
            yield from _values(part.get(name), path if path == ["*"] else path[1:])
    elif isinstance(part, str) and path in ([], ["*"]):
        yield part
