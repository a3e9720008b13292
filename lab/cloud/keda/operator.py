"""What stands for KEDA's operator: it finds each ScaledObject ready, and brings what it scales to its minimum, as without load.

It reads no metric: `workloads` renders the triggers and the planner says what they do. Source of the names: kedacore/keda v2.20.2,
apis/keda/v1alpha1.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from lab.cloud.world import condition
from lab.control_plane.api import DEPLOYMENT, ApiRefusedError, ApiUnreachableError, ClusterApi, Kind, Manifest

LOG = logging.getLogger(__name__)
SCALED_OBJECT: Final = Kind("keda.sh/v1alpha1", "ScaledObject")
PAUSED: Final = "autoscaling.keda.sh/paused-replicas"
LOOK_WALL_SECONDS: Final = 0.2
_READY: Final = {"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": ""}


class Keda:
    """A context manager. It waits for KEDA's definitions, which come with its chart."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keda-operator", daemon=True)

    def __enter__(self) -> Keda:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_WALL_SECONDS):
            try:
                for one in self._api.list_all(SCALED_OBJECT):
                    self._keep(one)
            except (ApiRefusedError, ApiUnreachableError) as error:  # Not installed yet, or the server restarts.
                LOG.debug("KEDA: %s", error)

    def _keep(self, one: Manifest) -> None:
        name, namespace, spec = one["metadata"]["name"], one["metadata"]["namespace"], one["spec"]
        if condition(one, "Ready") != "True":
            self._api.patch(SCALED_OBJECT, name, namespace, {"status": {"conditions": [_READY]}}, subresource="status")
        paused = (one["metadata"].get("annotations") or {}).get(PAUSED)
        wanted = int(spec.get("minReplicaCount", 0) if paused is None else paused)
        target = spec["scaleTargetRef"]["name"]
        found = self._api.get(DEPLOYMENT, target, namespace)
        if found is not None and (found["spec"]["replicas"] < wanted or paused is not None):
            self._api.patch(DEPLOYMENT, target, namespace, {"spec": {"replicas": wanted}}, subresource="scale")
