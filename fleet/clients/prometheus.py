"""DCGM series of the servers' GPUs from managed Prometheus, for the time of a measurement.

GKE's DCGM package samples every GPU node into Cloud Monitoring, which supports PromQL. The label of a GPU's pod
depends on the collector (`pod`, `exported_pod`), so series are matched by label values.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any, Final

from google.api_core.exceptions import from_http_response
from google.api_core.retry import Retry
from google.auth.credentials import Credentials
from google.auth.transport.requests import AuthorizedSession

from fleet.clients.errors import LiveError
from fleet.clients.google_api import ANSWER_SECONDS, RETRY, as_live_errors

MONITORING_URL: Final = "https://monitoring.googleapis.com"
ENDPOINT_VARIABLE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING"
"""gcloud's variable for an alternative endpoint. Source: gcloud docs, api_endpoint_overrides."""
GAUGES: Final = (
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES",
)
"""Watts, percent, degrees, MHz, and shares of 1; NVLink in bytes a second, which dcgm-exporter gives as a gauge under a counter's name.
Source: GKE docs, "Collect and view DCGM metrics"; dcgm-exporter, etc/dcp-metrics-included.csv; DCGM field identifiers."""
STEP_SECONDS: Final = 15
"""Query step in seconds. Source: GKE's managed DCGM package samples every 15 s or slower."""
MOST_STEPS: Final = 10_000
"""Maximum points per series. Source: Prometheus' limit of 11,000 (web/api/v1), 45 hours at 15 s."""
LAG_SECONDS: Final = 120.0
"""How long to wait for the last samples. Source: GKE docs, one to three minutes from sample to query. Assumed: two."""
SWITCH_ON: Final = (
    "gcloud container clusters update {cluster} --location {region} --project {project} "
    "--monitoring=SYSTEM,API_SERVER,SCHEDULER,CONTROLLER_MANAGER,STORAGE,POD,DEPLOYMENT,STATEFULSET,DAEMONSET,HPA,CADVISOR,KUBELET,DCGM"
)
"""Source: GKE docs, same page. The list is exhaustive: naming DCGM alone would disable every other package."""
_POLL_SECONDS: Final = 15.0
_MAY: Final = "roles/monitoring.viewer on the project"
_LABEL_VALUE: Final = re.compile(r'["\\\n]')


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """One series of one GPU."""

    metric: str
    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]
    """Seconds since 1970, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Selects GPUs: the pods of one Deployment, including deleted ones, and the nodes of known pods."""

    namespace: str
    deployment: str
    pods: frozenset[str] = frozenset()
    """Known pod names."""
    nodes: frozenset[str] = frozenset()
    """Names of their nodes."""

    def own(self, labels: Mapping[str, str]) -> bool:
        """Whether a series belongs to one of them: by pod name, else by node name."""
        values = set(labels.values())
        if values & self.pods:
            return True
        # Source: Kubernetes names a Deployment's pods NAME-HASH-FIVE, from a fixed alphabet.
        pattern = re.compile(rf"{re.escape(self.deployment)}-[a-z0-9]{{1,10}}-[a-z0-9]{{5}}")
        if self.namespace in values and any(pattern.fullmatch(value) for value in values):
            return True
        named = labels.get("exported_pod") or (labels.get("pod") if "dcgm" not in labels.get("pod", "") else None)
        return not named and any(value.partition(":")[0] in self.nodes for value in values)


class ManagedPrometheus:
    """Managed Prometheus of one project, with the user's login."""

    def __init__(self, project: str, credentials: Credentials, *, url: str | None = None, retry: Retry = RETRY) -> None:
        """`url`: Cloud Monitoring's address; default: gcloud's endpoint override, else Google's."""
        base = (url or os.environ.get(ENDPOINT_VARIABLE) or MONITORING_URL).rstrip("/")
        self._url = f"{base}/v1/projects/{project}/location/global/prometheus/api/v1"
        self._project, self._session, self._retry = project, AuthorizedSession(credentials), retry

    def range(self, query: str, began: float, ended: float, step_seconds: int = STEP_SECONDS) -> tuple[GpuSeries, ...]:
        """A range query. Raises LiveError."""
        step = max(step_seconds, ceil((ended - began) / MOST_STEPS))
        form = {"query": query, "start": f"{began:.0f}", "end": f"{ended:.0f}", "step": f"{step}s"}
        what = f"querying managed Prometheus of {self._project} for {query.partition('{')[0]}"
        with as_live_errors(what, _MAY):
            answer = self._retry(self._ask)("query_range", form)
        if not isinstance(answer, dict) or answer.get("status") != "success":
            said = answer.get("error") if isinstance(answer, dict) else None
            raise LiveError(f"{what}: {said or 'response without a status'}", reason="refused")
        try:
            return tuple(_series(one) for one in answer["data"]["result"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LiveError(f"{what}: the response is not a matrix", reason="refused") from None

    def _ask(self, call: str, form: Mapping[str, str]) -> Any:
        response = self._session.post(f"{self._url}/{call}", data=form, timeout=ANSWER_SECONDS)
        if not response.ok:
            raise from_http_response(response)
        return response.json()

    def gpus(
        self,
        cluster: str,
        region: str,
        servers: Servers,
        began: float,
        ended: float,
        *,
        lag_seconds: float = LAG_SECONDS,
        metrics: Sequence[str] = GAUGES,
    ) -> tuple[tuple[GpuSeries, ...], str | None]:
        """The servers' series from `began` to `ended`, with a reason if some are missing. Never raises LiveError.

        Waits up to `lag_seconds` after `ended` for the last samples, if there are any.
        """
        kept: list[GpuSeries] = []
        problems: list[str] = []
        seen = 0
        try:
            power = self._of_cluster(metrics[0], cluster, region, began, ended)
            while power and _newest(power) < ended - 2 * STEP_SECONDS and time.time() < ended + lag_seconds:
                time.sleep(min(_POLL_SECONDS, max(0.1, ended + lag_seconds - time.time())))
                power = self._of_cluster(metrics[0], cluster, region, began, ended)
            for metric in metrics:
                series = power if metric == metrics[0] else self._of_cluster(metric, cluster, region, began, ended)
                own = [one for one in series if servers.own(one.labels)]
                seen += len(series)
                kept += own
                if not own:
                    problems.append(metric)
        except LiveError as error:
            return tuple(kept), str(error)
        if not kept:
            return (), self._why_none(cluster, region, seen)
        if problems:
            return tuple(kept), f"no samples of {', '.join(problems)}: not provided by GKE's package or this GPU"
        return tuple(kept), None

    def _of_cluster(self, metric: str, cluster: str, region: str, began: float, ended: float) -> tuple[GpuSeries, ...]:
        # Keep the name: not every server of this API returns it.
        found = self.range(f'{metric}{{cluster="{_quoted(cluster)}",location="{_quoted(region)}"}}', began, ended)
        return tuple(GpuSeries(one.metric or metric, one.labels, one.samples) for one in found)

    def _why_none(self, cluster: str, region: str, seen: int) -> str:
        if seen:
            return (
                f"managed Prometheus has {seen} DCGM series of cluster {cluster}, but none for this stack's server pods or "
                "their nodes"
            )
        command = SWITCH_ON.format(cluster=cluster, region=region, project=self._project)
        return (
            f"managed Prometheus has no DCGM series of cluster {cluster} for that time. Clusters of this program collect them "
            f"(infra/cluster.py); to enable it elsewhere: {command}"
        )


def _series(one: Mapping[str, Any]) -> GpuSeries:
    samples = [(float(at), float(value)) for at, value in one["values"]]
    return GpuSeries(
        metric=str(one["metric"].get("__name__", "")),
        labels={key: str(value) for key, value in one["metric"].items() if key != "__name__"},
        # A missing value may be stored as NaN.
        samples=tuple((at, value) for at, value in samples if isfinite(value)),
    )


def _newest(series: Iterable[GpuSeries]) -> float:
    return max((one.samples[-1][0] for one in series if one.samples), default=0.0)


def _quoted(value: str) -> str:
    return _LABEL_VALUE.sub(lambda found: "\\n" if found[0] == "\n" else f"\\{found[0]}", value)
