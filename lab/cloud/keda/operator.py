"""Simulated KEDA operator: creates HPAs of ScaledObjects, serves their metrics, and scales from and to zero.

KEDA is not built: its 2,271 packages would take as long as Kubernetes (2,424 packages, 4.5 minutes on two cores). The simulation
follows the source, kedacore/keda v2.20.2:
controllers/keda/hpa.go and scaledobject_controller.go, pkg/scaling/scale_handler.go, pkg/scaling/executor/scale_scaledobjects.go,
pkg/fallback/fallback.go; a failed reconciliation is retried as controller-runtime does. Not simulated: scalingModifiers,
idleReplicaCount, useCachedMetrics, triggers other than prometheus, cron and kubernetes-workload.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from lab.cloud.keda import admission
from lab.cloud.keda.endpoints import NAMESPACE as KEDA
from lab.cloud.keda.endpoints import endpoints
from lab.cloud.keda.in_flight import InFlight
from lab.cloud.keda.replicas import COOLDOWN_SECONDS, POLLING_SECONDS, fallback_value, own_replicas
from lab.cloud.keda.triggers import (
    Reading,
    Sources,
    SpecError,
    Trigger,
    TriggerError,
    metric_spec,
    trigger,
)
from lab.cloud.keda.wall_time import on_the_wall, sync_wall_seconds
from lab.cloud.world import World, is_ready
from lab.control_plane.api import DEPLOYMENT, POD, ApiRefusedError, ApiUnreachableError, Kind, Manifest
from lab.control_plane.mirror import Change

LOG = logging.getLogger(__name__)
SCALED_OBJECT: Final = Kind("keda.sh/v1alpha1", "ScaledObject")
TRIGGER_AUTHENTICATION: Final = Kind("keda.sh/v1alpha1", "TriggerAuthentication")
AUTOSCALER: Final = Kind("autoscaling/v2", "HorizontalPodAutoscaler")
OPERATOR: Final = "keda-operator"
FIELD_MANAGER: Final = "keda"
FINALIZER: Final = "finalizer.keda.sh"
PAUSED: Final = "autoscaling.keda.sh/paused-replicas"
LOOK_WALL_SECONDS: Final = 0.2
"""Wall time between two reconciliations, and minimum of a polling interval."""
STOP_WALL_SECONDS: Final = 10.0
FIRST_RETRY_SECONDS: Final = 0.005
MOST_RETRY_SECONDS: Final = 1000.0
"""Time to the first retry of a failed reconciliation, doubled by each failure up to the second. Source: client-go, util/workqueue,
DefaultTypedControllerRateLimiter, which controller-runtime uses; KEDA sets no other one (cmd/operator/main.go) and does not watch
Deployments (controllers/keda/scaledobject_controller.go, SetupWithManager)."""
A_MONDAY: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
"""Default date of the calendar."""


@dataclass(eq=False)
class _Scaled:
    """State of one ScaledObject."""

    manifest: Manifest
    triggers: tuple[Trigger, ...] = ()
    failures: dict[str, int] = field(default_factory=dict)
    """Consecutive failures by metric, for objects with a fallback."""
    last_active_seconds: float | None = None
    polled_seconds: float = float("-inf")
    errors: int = 0
    """Consecutive failures of the reconciliation, the retries between two looks included."""
    retry_seconds: float = float("-inf")
    """When the reconciliation is tried again after a failure."""
    conditions: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Type -> status, reason, message."""
    status: Manifest = field(default_factory=dict)
    """Last written status."""

    @property
    def spec(self) -> Manifest:
        """The spec."""
        found: Manifest = self.manifest["spec"]
        return found

    def put_off(self, now_seconds: float) -> None:
        """The next retry after a failure, and after those that KEDA would have made since the last look."""
        due = self.retry_seconds if self.errors else now_seconds
        while due <= now_seconds:
            due += min(FIRST_RETRY_SECONDS * 2**self.errors, MOST_RETRY_SECONDS)
            self.errors += 1
        self.retry_seconds = due

    @property
    def place(self) -> tuple[str, str]:
        """Name and namespace of the scaled Deployment."""
        return self.spec["scaleTargetRef"]["name"], self.manifest["metadata"]["namespace"]


class Keda:
    """The operator, active while its pod is Ready. Construct it before the world is entered."""

    def __init__(self, world: World, in_flight: InFlight) -> None:
        self._world, self._api, self.in_flight = world, world.api, in_flight
        self.now = A_MONDAY
        """Simulated date and time. They stand unless the calendar runs: hours that a busy machine takes end no window."""
        self._runs = False
        self._scaled: dict[tuple[str, str], _Scaled] = {}
        self._lock = threading.RLock()
        self._stop, self._installed, self._works = threading.Event(), threading.Event(), threading.Event()
        self._led = False
        self._stack = contextlib.ExitStack()
        self._manifests: list[Manifest] = []
        self._thread = threading.Thread(target=self._run, name="keda-operator", daemon=True)
        world.pods.listen(self._pod)

    def __enter__(self) -> Keda:
        self._manifests = self._stack.enter_context(endpoints(self._metric, self._judge))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(STOP_WALL_SECONDS)
        self._stack.close()

    def run_without_pods(self) -> None:
        """Start as on a cluster with KEDA preinstalled; the caller installs its CRDs."""
        self._api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEDA}}, field_manager=FIELD_MANAGER
        )
        self._installed.set()
        self._works.set()

    def restart_at(self, now: datetime) -> None:
        """Let the calendar stand at `now`, without load and HPA history."""
        with self._lock:
            self.in_flight.calm()
            self.now, self._runs = now, False
            for namespace, name in self._scaled:
                self._api.delete(AUTOSCALER, admission.hpa_name(self._scaled[namespace, name].manifest), namespace)
            self._scaled.clear()  # They are created again.

    def run_calendar(self) -> None:
        """Let the calendar run by the HPA controller's own pace, which a busy machine slows: its sync period with each look."""
        self._runs = True

    # Reconciliation

    def _pod(self, change: Change, manifest: Manifest, _before: Manifest | None) -> None:
        metadata = manifest["metadata"]
        if metadata["namespace"] == KEDA and (metadata.get("labels") or {}).get("app") == OPERATOR:
            self._installed.set()
            (self._works.set if change != "deleted" and is_ready(manifest) else self._works.clear)()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_WALL_SECONDS):
            try:
                # Before the operator is Ready: the API server picks up APIService and webhook with a delay.
                if self._installed.is_set() and not self._led:
                    for manifest in self._manifests:
                        self._api.apply(manifest, field_manager=FIELD_MANAGER, force=True)
                    self._led = True
                if self._works.is_set():
                    self._look()
            except (ApiRefusedError, ApiUnreachableError) as error:  # The server restarts, or an object was deleted.
                LOG.info("simulated KEDA operator: %s", error)
            except Exception:
                LOG.exception("simulated KEDA operator")

    def _look(self) -> None:
        found = {_key(one): one for one in self._api.list_all(SCALED_OBJECT)}
        for one in (*found.values(), *self._api.list_all(TRIGGER_AUTHENTICATION)):
            self._finalize(one)
        with self._lock:
            for key in self._scaled.keys() - found.keys():
                del self._scaled[key]
        for key, one in found.items():
            if "deletionTimestamp" not in one["metadata"]:
                self._keep(key, one)

    def _finalize(self, manifest: Manifest) -> None:
        """Add or remove KEDA's finalizer: without the operator, its objects cannot be deleted."""
        metadata = manifest["metadata"]
        held, gone = FINALIZER in metadata.get("finalizers", ()), "deletionTimestamp" in metadata
        if held == gone:
            wanted = [name for name in metadata.get("finalizers", ()) if name != FINALIZER]
            body = {"metadata": {"finalizers": wanted if gone else [*wanted, FINALIZER]}}
            self._api.patch(Kind.of(manifest), metadata["name"], metadata["namespace"], body)

    # A ScaledObject becomes an HPA

    def _keep(self, key: tuple[str, str], manifest: Manifest) -> None:
        with self._lock:
            scaled = self._scaled.setdefault(key, _Scaled(manifest))
            known = scaled.manifest["metadata"].get("generation") == manifest["metadata"].get("generation")
            is_due = not scaled.triggers and self._world.clock.now_seconds() >= scaled.retry_seconds
            if not known or is_due or _paused(manifest) != _paused(scaled.manifest):
                scaled.manifest = manifest
                self._reconcile(scaled)
            interval = max(
                manifest["spec"].get("pollingInterval", POLLING_SECONDS), self._world.clock.speed * LOOK_WALL_SECONDS
            )
            now = self._world.clock.now_seconds()
            if scaled.triggers and _paused(manifest) is None and now - scaled.polled_seconds >= interval:
                scaled.polled_seconds = now
                self._poll(scaled)
            self._write_status(scaled)

    def _reconcile(self, scaled: _Scaled) -> None:
        one, conditions = scaled.manifest, scaled.conditions
        paused = _paused(one)
        try:
            scaled.triggers = self._checked(one)
        except SpecError as error:
            scaled.triggers = ()
            scaled.put_off(self._world.clock.now_seconds())
            conditions["Ready"] = ("False", "ScaledObjectCheckFailed", str(error))
            conditions["Active"] = ("Unknown", "UnknownState", "ScaledObject check failed")
            return
        scaled.errors, scaled.retry_seconds = 0, float("-inf")
        conditions["Ready"] = (
            "True",
            "ScaledObjectReady",
            "ScaledObject is defined correctly and is ready for scaling",
        )
        paused_said = ("True", "ScaledObjectPaused", "ScaledObject is paused")
        conditions["Paused"] = ("False", "", "") if paused is None else paused_said
        conditions.setdefault("Fallback", ("False", "NoFallbackFound", "No fallbacks are active on this scaled object"))
        if paused is None:
            self._api.apply(self._autoscaler(scaled), field_manager=FIELD_MANAGER, force=True)
            return
        self._api.delete(AUTOSCALER, admission.hpa_name(one), one["metadata"]["namespace"])
        if self._replicas(scaled) != paused:
            self._scale(scaled, paused)

    def _checked(self, manifest: Manifest) -> tuple[Trigger, ...]:
        spec, namespace = manifest["spec"], manifest["metadata"]["namespace"]
        if self._api.get(DEPLOYMENT, spec["scaleTargetRef"]["name"], namespace) is None:
            raise SpecError(f"the scale target {spec['scaleTargetRef']['name']} does not exist")
        for one_trigger in spec["triggers"]:
            reference = (one_trigger.get("authenticationRef") or {}).get("name")
            if reference and self._api.get(TRIGGER_AUTHENTICATION, reference, namespace) is None:
                raise SpecError(f'triggerauthentications.keda.sh "{reference}" not found')
        return tuple(trigger(index, found, namespace) for index, found in enumerate(spec["triggers"]))

    def _autoscaler(self, scaled: _Scaled) -> Manifest:
        one = scaled.manifest
        metadata, reference = one["metadata"], one["spec"]["scaleTargetRef"]
        least, most = admission.bounds(one)
        labels = {"app.kubernetes.io/managed-by": OPERATOR, "app.kubernetes.io/part-of": metadata["name"]}
        owner = {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "apiVersion": AUTOSCALER.api_version,
            "kind": AUTOSCALER.kind,
            "metadata": {
                "name": admission.hpa_name(one),
                "namespace": metadata["namespace"],
                "labels": {**labels, **(metadata.get("labels") or {})},
                "ownerReferences": [owner],
            },
            "spec": {
                "minReplicas": least,
                "maxReplicas": most,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": reference["name"]},
                "metrics": [metric_spec(found, metadata["name"]) for found in scaled.triggers],
                "behavior": on_the_wall(admission.behavior(one), self._world.clock.speed),
            },
        }

    # Metrics, for the HPA controller

    def _metric(self, namespace: str, name: str, metric: str) -> float:
        clock = self._world.clock
        with self._lock:
            scaled = self._scaled.get((namespace, name)) if self._works.is_set() else None
            found = (
                next((one for one in scaled.triggers if one.name.casefold() == metric.casefold()), None)
                if scaled
                else None
            )
            if scaled is None or found is None:
                raise TriggerError(f"no matching metrics found for {metric}")
            if self._runs and found is scaled.triggers[0]:
                self.now += timedelta(seconds=sync_wall_seconds(clock.speed) * clock.speed)
            try:
                return self._read(scaled, found).value
            except TriggerError as error:
                raise TriggerError(f"metric:{metric} encountered error: {error}") from error

    def _read(self, scaled: _Scaled, one: Trigger) -> Reading:
        """A trigger's value, or its fallback's. Raises TriggerError."""
        fallback = scaled.spec.get("fallback")
        try:
            reading = one.read(self._sources(scaled))
        except TriggerError:
            if not fallback:
                raise
            failures = scaled.failures[one.name] = scaled.failures.get(one.name, 0) + 1
            self._show_fallback(scaled, fallback)
            if failures <= fallback["failureThreshold"]:
                raise
            behavior = fallback.get("behavior", "static")
            value = fallback_value(behavior, int(fallback["replicas"]), one.target, self._replicas(scaled))
            return Reading(value, active=True)
        if fallback:
            scaled.failures[one.name] = 0
            self._show_fallback(scaled, fallback)
        return reading

    def _sources(self, scaled: _Scaled) -> Sources:
        _, namespace = scaled.place

        def pods(selector: str) -> list[Manifest]:
            try:
                return self._api.list_all(POD, namespace, label_selector=selector)
            except (ApiRefusedError, ApiUnreachableError) as error:
                raise TriggerError(f"error inspecting kubernetes workload: {error}") from error

        return Sources(query=self.in_flight.query, pods=pods, now=self.now)

    def _show_fallback(self, scaled: _Scaled, fallback: Manifest) -> None:
        if max(scaled.failures.values()) > fallback["failureThreshold"]:
            said = ("True", "FallbackExists", "At least one trigger is falling back on this scaled object")
        else:
            said = ("False", "NoFallbackFound", "No fallbacks are active on this scaled object")
        scaled.conditions["Fallback"] = said

    # The polling loop: replicas at zero, and conditions

    def _poll(self, scaled: _Scaled) -> None:
        active = wrong = False
        for one in scaled.triggers:
            try:
                active = self._read(scaled, one).active or active
            except TriggerError:
                wrong = True
        spec, conditions, current = scaled.spec, scaled.conditions, self._replicas(scaled)
        least, fallback = spec.get("minReplicaCount", 0), spec.get("fallback")
        ready = ("True", "ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")
        if active:
            conditions["Active"] = ("True", "ScalerActive", "Scaling is performed because triggers are active")
            if current and wrong:
                said = "Some triggers defined in ScaledObject are not working correctly"
                ready = ("Unknown", "PartialTriggerError", said)
            else:
                scaled.last_active_seconds = self._world.clock.now_seconds()
        else:
            conditions["Active"] = (
                "False",
                "ScalerNotActive",
                "Scaling is not performed because triggers are not active",
            )
            if wrong and not fallback:
                ready = ("False", "TriggerError", "Triggers defined in ScaledObject are not working correctly")
        conditions["Ready"] = ready
        active_at = scaled.last_active_seconds
        idle = float("inf") if active_at is None else self._world.clock.now_seconds() - active_at
        wanted = own_replicas(
            active=active,
            failing=wrong,
            fallback=fallback["replicas"] if fallback else None,
            current=current,
            least=least,
            idle_seconds=idle,
            cooldown=spec.get("cooldownPeriod", COOLDOWN_SECONDS),
        )
        if wanted != current:
            self._scale(scaled, wanted)
        elif current and not least and not active and not wrong:
            said = "Scaler cooling down because triggers are not active"
            conditions["Active"] = ("False", "ScalerCooldown", said)

    def _replicas(self, scaled: _Scaled) -> int:
        found = self._api.get(DEPLOYMENT, *scaled.place)
        return found["spec"].get("replicas", 1) if found else 0

    def _scale(self, scaled: _Scaled, replicas: int) -> None:
        self._api.patch(DEPLOYMENT, *scaled.place, {"spec": {"replicas": replicas}}, subresource="scale")

    # Status

    def _write_status(self, scaled: _Scaled) -> None:
        one = scaled.manifest
        metadata = one["metadata"]
        self._observe_autoscaler(scaled)
        conditions = [
            {"type": type_, "status": status, **({"reason": reason} if reason else {}), "message": message}
            for type_, (status, reason, message) in sorted(scaled.conditions.items())
        ]
        status: Manifest = {
            "conditions": conditions,
            "externalMetricNames": [found.name for found in scaled.triggers],
            "hpaName": admission.hpa_name(one),
            "scaleTargetKind": "apps/v1.Deployment",
            "triggersTypes": ",".join(found["type"] for found in one["spec"]["triggers"]),
            "health": {
                name: {"numberOfFailures": count, "status": "Failing" if count else "Happy"}
                for name, count in scaled.failures.items()
            },
        }
        if scaled.last_active_seconds is not None:
            status["lastActiveTime"] = f"{A_MONDAY + timedelta(seconds=scaled.last_active_seconds):%Y-%m-%dT%H:%M:%SZ}"
        if status != scaled.status:
            with contextlib.suppress(ApiRefusedError):  # Deleted meanwhile.
                self._api.patch(
                    SCALED_OBJECT, metadata["name"], metadata["namespace"], {"status": status}, subresource="status"
                )
            scaled.status = status

    def _observe_autoscaler(self, scaled: _Scaled) -> None:
        one = scaled.manifest
        found = self._api.get(AUTOSCALER, admission.hpa_name(one), one["metadata"]["namespace"])
        for condition in ((found or {}).get("status") or {}).get("conditions") or ():
            if condition["type"] == "ScalingActive":
                if condition["status"] == "True" or condition["reason"] == "ScalingDisabled":
                    scaled.conditions["HPAActive"] = ("True", "HPAActive", "HPA is actively scaling")
                else:
                    said = f"HPA is not actively scaling: {condition['message']}"
                    scaled.conditions["HPAActive"] = ("False", condition["reason"], said)

    # Admission

    def _judge(self, manifest: Manifest) -> tuple[str, list[str]]:
        if not self._works.is_set():
            return "", []
        namespace = manifest["metadata"]["namespace"]
        others = self._api.list_all(SCALED_OBJECT, namespace)
        return admission.refusal(manifest, others, self._api.list_all(AUTOSCALER, namespace)), admission.warnings(
            manifest
        )


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _paused(manifest: Manifest) -> int | None:
    """Number of replicas at which it is paused, if any."""
    text = (manifest["metadata"].get("annotations") or {}).get(PAUSED)
    return None if text is None else int(text)
