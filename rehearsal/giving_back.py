"""Undoing what a rehearsal did: a scaled Deployment handed back to Pulumi, somebody else's cluster left as it was found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rehearsal.api import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    FIELD_MANAGER,
    PERSISTENT_VOLUME,
    VOLUME_SNAPSHOT_CONTENT,
    ApiRefusedError,
    ClusterApi,
    Kind,
    Manifest,
)
from rehearsal.apply.applier import Applier
from rehearsal.apply.state import AppliedState, ObjectRef
from rehearsal.autopilot.policies import policies
from rehearsal.simulation.provisioning import DRIVER

GONE_SECONDS: Final = 60.0
"""Wall time that objects get to go after they were deleted. Assumed: four times what a busy machine was seen to need."""
LOOK_SECONDS: Final = 0.5
_DISKS: Final = {PERSISTENT_VOLUME: "csi", VOLUME_SNAPSHOT_CONTENT: ""}
"""Kinds that stand for disks and images -> the part of their spec that names the driver."""


def take_down(api: ClusterApi, applier: Applier) -> None:
    """Every stack that was applied, also what its program would protect or keep, and the disks and images played for it.

    Call it while Google's part is still played: volumes go only with somebody who deletes their disks.
    """
    for state in applier.states:
        whole = unprotected(state)
        applier.destroy(whole)
        # Whatever did not go in Pulumi's time, which a busy machine may well miss.
        _remove(api, whole.objects)
    for kind, part in _DISKS.items():
        for one in api.list_all(kind):
            said = one["spec"].get(part) or {} if part else one["spec"]
            if said.get("driver") == DRIVER:
                api.delete(kind, one["metadata"]["name"])


def _remove(api: ClusterApi, refs: Sequence[ObjectRef]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    left = [ref for ref in reversed(refs) if _there(api, ref)]
    while left and time.monotonic() < deadline:
        for ref in left:
            with contextlib.suppress(ApiRefusedError):  # a namespace that is going already is a conflict
                api.delete(ref.kind, ref.name, ref.namespace)
        time.sleep(LOOK_SECONDS)
        left = [ref for ref in left if _there(api, ref)]


def _there(api: ClusterApi, ref: ObjectRef) -> bool:
    try:
        return api.get(ref.kind, ref.name, ref.namespace) is not None
    except ApiRefusedError:  # its kind is gone
        return False


def unprotected(state: AppliedState) -> AppliedState:
    """The Kubernetes half of a state, with nothing in it that a destroy would refuse or keep."""
    resources = {
        urn: replace(one, resource=replace(one.resource, protect=False, retain_on_delete=False))
        for urn, one in state.resources.items()
        if not one.resource.type.startswith("gcp:")
    }
    return replace(state, resources=resources)


def remove_platform(api: ClusterApi, definitions: Sequence[Manifest]) -> None:
    """Autopilot's rules, and these definitions with every object of theirs."""
    for policy in policies():
        for one in (*policy.bindings, policy.manifest):
            api.delete(Kind.of(one), one["metadata"]["name"])
    for one in definitions:
        api.delete(CUSTOM_RESOURCE_DEFINITION, one["metadata"]["name"])


def forget_scaling(api: ClusterApi, name: str, namespace: str, replicas: int) -> None:
    """Undo `kubectl scale` and hand the number back to Pulumi, which would meet it as a conflict.

    Without an owner the field would not do: a later scale would not be noted as anybody's then.
    """
    live = api.get(DEPLOYMENT, name, namespace)
    if live is None:
        return
    if live["spec"].get("replicas") != replicas:
        # Apart: whoever changes the number becomes its owner, in whichever request.
        api.patch(DEPLOYMENT, name, namespace, {"spec": {"replicas": replicas}}, subresource="scale")
        live = api.get(DEPLOYMENT, name, namespace) or live
    owners = live["metadata"].get("managedFields") or []
    if (returned := returned_to_pulumi(owners)) != owners:
        api.patch(DEPLOYMENT, name, namespace, {"metadata": {"managedFields": returned}})


def returned_to_pulumi(owners: Sequence[Manifest]) -> list[Manifest]:
    """The managed fields of a Deployment as if nobody had ever scaled it: whoever applies it owns the number of replicas."""
    found = []
    for owner in owners:
        if owner["manager"] == FIELD_MANAGER and owner.get("subresource") == "scale":
            continue
        fields = owner.get("fieldsV1") or {}
        if owner.get("operation") == "Apply" and "f:spec" in fields:
            fields = {**fields, "f:spec": {**fields["f:spec"], "f:replicas": {}}}
        found.append({**owner, "fieldsV1": fields})
    return found
