"""The stack's alerts, evaluated over a drill's metrics and logs.

Servers are scraped over HTTP; series of Kubernetes and GKE are derived from the API server's objects, as in kube-state-metrics;
log-based metrics count Google's log entries. Series are text in the notation of Prometheus' tests.
"""

from __future__ import annotations

import contextlib
import re
import threading
import urllib.request
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from facts.names import CANARY_ENDING, ROUTER_APP, ROUTER_METRICS_PORT, spending_namespace
from facts.signals.catalogue import catalogue
from facts.signals.series import TPOT_BOUNDS, TTFT_BOUNDS
from lab.control_plane.api import DEPLOYMENT, ApiUnreachableError
from lab.drills.alerts.evaluate import Fired, Question, ask, evaluate
from lab.drills.alerts.logs import Entry, entry_of, entry_of_fallback, labels_of, matches
from lab.results.timeline import Moment
from settings.derived.figures import figures
from settings.derived.watched import watched

if TYPE_CHECKING:
    from lab.stage.stage import Stage

INTERVAL_SECONDS: Final = 30.0
"""Simulated sampling interval: Cloud Monitoring's evaluation interval of alerts."""
LEAST_WALL_SECONDS: Final = 0.2
"""Minimum wall time between samples. Measured: a scrape takes a millisecond per engine."""
SCRAPE_WALL_SECONDS: Final = 2.0
PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


@dataclass(frozen=True, slots=True)
class Curve:
    """One series of an answer."""

    samples: tuple[tuple[float, float], ...]
    """Simulated seconds, value."""


class AlertWatch:
    """Samples a running stage. A context manager."""

    def __init__(self, stage: Stage) -> None:
        self._stage, timing = stage, stage.traffic.load.timing
        seen = watched(stage.settings, figures(stage.settings))
        # The drill's servers have published latencies, which may exceed the stack's objectives: alert only above both.
        self.catalogue = catalogue(
            replace(
                seen,
                ttft_seconds=_bound(TTFT_BOUNDS, max(seen.ttft_seconds, timing.ttft_seconds)),
                tpot_seconds=_bound(TPOT_BOUNDS, max(seen.tpot_seconds, timing.tpot_seconds)),
            )
        )
        self._rules = self.catalogue.rule_groups()
        rules = [rule for group in self._rules["groups"] for rule in group["rules"]]
        self._read = {
            name
            for rule in rules
            for name in re.findall(r"(?:vllm:\w+|haproxy_\w+|http_requests_total)(?=\{)", rule["expr"])
        }
        bounds = {bound for rule in rules for bound in re.findall(r'le=~?"([^"]+)"', rule["expr"])}
        self._bounds = re.compile(rf'le="({"|".join(bounds)})"')
        self._every = max(INTERVAL_SECONDS, LEAST_WALL_SECONDS * stage.clock.speed)
        self._began = stage.clock.now_seconds()
        self._samples: dict[str, dict[int, str]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def __enter__(self) -> AlertWatch:
        self._stage.traffic.wait_for_endpoints(len(self._stage.ready_pods()))
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def fired(self) -> list[Fired]:
        """Alerts fired so far; times in seconds since the start of the watch."""
        steps = self._step() + 1
        with self._lock:
            samples = {**self._samples, **self._logged(steps)}
            series = [_text(name, values, steps) for name, values in samples.items()]
        minutes = (steps - 1) * self._every / 60
        return evaluate(self._rules, series, interval_seconds=self._every, minutes=minutes)

    def moments(self, fired: Iterable[Fired]) -> Iterator[Moment]:
        """Alerts as periods, from firing to resolved or now."""
        now = self._stage.clock.now_seconds()
        for one in fired:
            until = now if one.resolved_at is None else self._began + one.resolved_at
            severity = one.labels["severity"]
            yield Moment(
                lane="alert",
                subject=one.alert,
                text=f"{severity} fires" if one.resolved_at is None else f"{severity}, then resolved",
                at_seconds=self._began + one.firing_at,
                until_seconds=max(until, self._began + one.firing_at),
                mood="bad" if severity == "page" else "waiting",
            )

    def range(self, query: str, began: float, ended: float, step_seconds: int, /) -> tuple[Curve, ...]:
        """A range query over the samples, as managed Prometheus answers it; times as on the rehearsal's clock."""
        steps = int((ended - self._began) // step_seconds) + 1
        with self._lock:
            series = [
                _text(name, {int(step * self._every // step_seconds): value for step, value in values.items()}, steps)
                for name, values in self._samples.items()
                if name.partition("{")[0] in query
            ]
        minutes = (steps - 1) * step_seconds / 60
        asked = Question(
            rules={"groups": []}, series=series, interval_seconds=step_seconds, minutes=minutes, expressions=(query,)
        )
        [answer] = ask([asked])
        if answer.error:
            raise ValueError(answer.error)
        return tuple(
            Curve(tuple((self._began + at, value) for at, value in one["samples"] if self._began + at >= began))
            for one in answer.values.get(query, ())
        )

    def let_pass(self, alert: str) -> None:
        """Wait until the current problem would fire this alert."""
        [seconds] = [one.for_seconds for one in self.catalogue.alerts if one.name == alert]
        self._stage.clock.sleep(seconds + 3 * self._every)

    def _step(self) -> int:
        return int((self._stage.clock.now_seconds() - self._began) / self._every)

    def _run(self) -> None:
        clock = self._stage.clock
        while not self._over.wait(
            max(0.0, clock.wall_seconds(self._began + (self._step() + 1) * self._every - clock.now_seconds()))
        ):
            self._sample()

    def _sample(self) -> None:
        step, found = self._step(), list(self._scraped())
        with contextlib.suppress(ApiUnreachableError):
            found += self._of_kubernetes()
        with self._lock:
            for name, value in found:
                self._samples.setdefault(name, {})[step] = value

    def _scraped(self) -> Iterator[tuple[str, str]]:
        stage = self._stage
        targets = [
            (app, *target)
            for app in (stage.server, stage.server + CANARY_ENDING)
            for target in stage.traffic.targets(app)
        ]
        for app, pod, node, url in targets:
            own = f'app="{app}",namespace="{stage.namespace}",job="{app}",container="vllm"'
            yield from self._lines(f"{url}/metrics", f'{own},pod="{pod}",instance="{pod}:8000",node="{node}"')
        for router in () if stage.routers is None else stage.routers.pods():
            own = f'app="{ROUTER_APP}",namespace="{stage.namespace}",job="{ROUTER_APP}",container="haproxy"'
            instance = f"{router.name}:{ROUTER_METRICS_PORT}"
            yield from self._lines(router.metrics_url, f'{own},pod="{router.name}",instance="{instance}"')

    def _lines(self, url: str, own: str) -> Iterator[tuple[str, str]]:
        """What the alerts read of one scrape. `own`: labels of the target."""
        try:
            with urllib.request.urlopen(url, timeout=SCRAPE_WALL_SECONDS) as response:  # noqa: S310 - loopback
                lines = response.read().decode().splitlines()
        except OSError:
            return  # A failed scrape leaves a gap.
        for line in lines:
            name, _, rest = line.partition("{")
            if name in self._read and (not name.endswith("_bucket") or self._bounds.search(rest)):
                labels, _, value = rest.rpartition(" ")
                yield f"{name}{{{own},{labels}", value

    def _of_kubernetes(self) -> Iterator[tuple[str, str]]:
        space = self._stage.namespace
        watched = (space, spending_namespace(space))
        for deployment in (one for each in watched for one in self._stage.api.list_all(DEPLOYMENT, each)):
            named = deployment["metadata"]
            own = f'{{namespace="{named["namespace"]}",deployment="{named["name"]}"}}'
            yield f"kube_deployment_spec_replicas{own}", str(deployment["spec"]["replicas"])
            for state in ("available", "updated"):
                replicas = deployment.get("status", {}).get(f"{state}Replicas") or 0
                yield f"kube_deployment_status_replicas_{state}{own}", str(replicas)
        for pod in self._stage.world.pods.all():
            name, status = pod["metadata"]["name"], pod.get("status", {})
            if pod["metadata"]["namespace"] != space:
                continue
            for phase in PHASES:
                own = f'{{namespace="{space}",pod="{name}",phase="{phase}"}}'
                yield f"kube_pod_status_phase{own}", str(int(status.get("phase") == phase))
            for one in status.get("containerStatuses") or ():
                waiting = (one.get("state") or {}).get("waiting") or {}
                if reason := waiting.get("reason"):
                    own = f'namespace="{space}",pod="{name}",container="{one["name"]}",reason="{reason}"'
                    yield f"kube_pod_container_status_waiting_reason{{{own}}}", "1"
                own = f'namespace_name="{space}",pod_name="{name}",container_name="{one["name"]}"'
                own = f'{{monitored_resource="k8s_container",{own}}}'
                yield f"kubernetes_io:container_restart_count{own}", str(one.get("restartCount", 0))

    def _logged(self, steps: int) -> dict[str, dict[int, str]]:
        """Log-based metrics; a counter exists from its first entry on."""
        counted: dict[str, list[int]] = {}
        for at_seconds, entry in sorted(self._entries(), key=lambda each: each[0]):
            for signal in self.catalogue.logs:
                if matches(signal.filter, entry):
                    step = max(0, int((at_seconds - self._began) / self._every))
                    counted.setdefault(signal.series(**labels_of(signal, entry)), []).append(step)
        return {
            series: {step: str(bisect_right(entries, step)) for step in range(entries[0], steps)}
            for series, entries in counted.items()
        }

    def _entries(self) -> Iterator[tuple[float, Entry]]:
        settings, cluster = self._stage.settings, self.catalogue.watched.cluster
        for moment in self._stage.timeline.moments(self._began):
            entry = entry_of(moment, settings, cluster)
            if entry is not None:
                yield moment.at_seconds, entry
        keda = self._stage.autoscaler
        for line in () if keda is None else tuple(keda.suppressed):
            if line.at_seconds >= self._began:
                yield line.at_seconds, entry_of_fallback(line.name, settings, cluster)


def _text(name: str, values: Mapping[int, str], steps: int) -> str:
    """A series in the notation of Prometheus' tests."""
    return f"{name} {' '.join(values.get(step, '_') for step in range(steps))}"


def _bound(bounds: tuple[float, ...], seconds: float) -> float:
    """The smallest histogram bound that is not less."""
    return next(bound for bound in bounds if bound >= seconds)
