"""KEDA's triggers: name and target of a metric, its value, and its activity.

Source: kedacore/keda v2.20.2: pkg/scalers/prometheus_scaler.go, cron_scaler.go, kubernetes_workload_scaler.go, scaler.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lab.cloud.keda.schedule import Schedule
from lab.control_plane.api import Manifest

OWNER_LABEL = "scaledobject.keda.sh/name"
"""Label with which the metrics server identifies the ScaledObject."""
TERMINATED = ("Succeeded", "Failed")
"""Phases of pods that a workload trigger does not count."""
_REQUIREMENT = re.compile(
    r"\s*(?:!?[\w./-]+|[\w./-]+\s*(?:==?|!=)\s*[\w.-]*|[\w./-]+\s+(?:not)?in\s+\([\w.,\s-]*\))\s*"
)
"""One requirement of a label selector. Source: k8s.io/apimachinery, pkg/labels, Parse."""
Query = Callable[[str], list[float]]
"""Values of a PromQL query's elements. Raises TriggerError for an error of Prometheus."""
Pods = Callable[[str], list[Manifest]]
"""Pods with these labels in the ScaledObject's namespace. Raises TriggerError for an error of the API server."""


class TriggerError(Exception):
    """A trigger cannot be read; with KEDA's message."""


class SpecError(Exception):
    """A trigger's spec is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What triggers read."""

    query: Query
    pods: Pods
    now: datetime


@dataclass(frozen=True, slots=True)
class Reading:
    """Value of a trigger, and whether it is active."""

    value: float
    active: bool


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A query whose result is divided among replicas."""

    index: int
    query: str
    threshold: float
    activation: float
    ignore_null_values: bool

    @property
    def name(self) -> str:
        """Name of its external metric."""
        return f"s{self.index}-prometheus"

    @property
    def target(self) -> float:
        """The threshold."""
        return self.threshold

    def read(self, sources: Sources) -> Reading:
        """Requires exactly one element; an empty result is zero unless `ignoreNullValues` is false."""
        found = sources.query(self.query)
        if len(found) > 1:
            raise TriggerError(f"prometheus query {self.query} returned multiple elements")
        if not found or not math.isfinite(found[0]):
            if not self.ignore_null_values:
                raise TriggerError("prometheus metrics 'prometheus' target may be lost, the result is empty")
            return Reading(0.0, active=False)
        return Reading(found[0], active=found[0] > self.activation)


@dataclass(frozen=True, slots=True)
class Cron:
    """A number of replicas between two moments; zero outside."""

    index: int
    timezone: str
    start: str
    end: str
    replicas: int

    @property
    def name(self) -> str:
        """Name of its external metric, which contains the schedule."""
        return f"s{self.index}-" + _normal(f"cron-{self.timezone}-{_compact(self.start)}-{_compact(self.end)}")

    @property
    def target(self) -> float:
        """1: the value is the number of replicas."""
        return 1.0

    def read(self, sources: Sources) -> Reading:
        """Active while the next end is before the next start."""
        here = sources.now.astimezone(ZoneInfo(self.timezone))
        inside = Schedule.parse(self.end).next(here) <= Schedule.parse(self.start).next(here)
        return Reading(float(self.replicas) if inside else 0.0, active=inside)


@dataclass(frozen=True, slots=True)
class Workload:
    """The number of pods with some labels that have not ended, pending ones and those being deleted included."""

    index: int
    namespace: str
    selector: str
    target: float
    activation: float

    @property
    def name(self) -> str:
        """Name of its external metric, which has the ScaledObject's namespace."""
        return f"s{self.index}-" + _normal(f"workload-{self.namespace}")

    def read(self, sources: Sources) -> Reading:
        """Active above the activation value."""
        value = float(sum(pod["status"].get("phase") not in TERMINATED for pod in sources.pods(self.selector)))
        return Reading(value, active=value > self.activation)


Trigger = Prometheus | Cron | Workload


def trigger(index: int, one: Mapping[str, Any], namespace: str) -> Trigger:
    """A trigger of a ScaledObject's spec. Raises SpecError as KEDA does, and for unsupported types."""
    metadata: Mapping[str, str] = one.get("metadata") or {}
    if one.get("metricType", "AverageValue") != "AverageValue":
        raise SpecError(f"metricType {one['metricType']} is not supported by the rehearsal")
    try:
        if one["type"] == "prometheus":
            return Prometheus(
                index=index,
                query=metadata["query"],
                threshold=float(metadata["threshold"]),
                activation=float(metadata.get("activationThreshold", 0)),
                ignore_null_values=_is_true(metadata.get("ignoreNullValues", "true")),
            )
        if one["type"] == "cron":
            return _cron(index, metadata)
        if one["type"] == "kubernetes-workload":
            return _workload(index, metadata, namespace)
    except KeyError as missing:
        raise SpecError(f"error parsing {one['type']} metadata: missing required parameter {missing}") from missing
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise SpecError(f"error parsing {one['type']} metadata: {error}") from error
    raise SpecError(f"the rehearsal supports the triggers prometheus, cron and kubernetes-workload, not {one['type']}")


def _cron(index: int, metadata: Mapping[str, str]) -> Cron:
    found = Cron(index, metadata["timezone"], metadata["start"], metadata["end"], int(metadata["desiredReplicas"]))
    ZoneInfo(found.timezone)
    Schedule.parse(found.start), Schedule.parse(found.end)
    if found.start == found.end:
        raise ValueError("start and end can not have exactly same time input")
    if found.replicas == 0:
        raise ValueError("no desiredReplicas specified")
    return found


def _workload(index: int, metadata: Mapping[str, str], namespace: str) -> Workload:
    if _is_true(metadata.get("groupByNode", "false")):
        raise SpecError("groupByNode is not supported by the rehearsal")
    selector, target = metadata["podSelector"], float(metadata.get("value", 0))
    if wrong := [one for one in re.split(r",(?![^(]*\))", selector) if not _REQUIREMENT.fullmatch(one)]:
        raise ValueError(f"error parsing pod selector: {wrong[0]}")
    if target <= 0:
        raise ValueError("value must be a float greater than 0")
    return Workload(index, namespace, selector, target, float(metadata.get("activationValue", 0)))


def metric_spec(one: Trigger, scaled_object: str) -> Manifest:
    """The metric in the HPA's spec."""
    selector = {"matchLabels": {OWNER_LABEL: scaled_object}}
    target = {"type": "AverageValue", "averageValue": quantity(one.target)}
    return {"type": "External", "external": {"metric": {"name": one.name, "selector": selector}, "target": target}}


def quantity(value: float) -> str:
    """A Kubernetes quantity in thousandths, as in KEDA, at least zero."""
    return f"{max(0, round(value * 1000))}m"


def _is_true(text: str) -> bool:
    if text.lower() in ("1", "t", "true"):
        return True
    if text.lower() in ("0", "f", "false"):
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _normal(text: str) -> str:
    for sign in "/.:%()":
        text = text.replace(sign, "-")
    return text


def _compact(line: str) -> str:
    for sign, word in ((" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")):
        line = line.replace(sign, word)
    return line
