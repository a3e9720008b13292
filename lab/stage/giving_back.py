"""Return ownership of a scaled Deployment's replicas to Pulumi."""

from __future__ import annotations

from collections.abc import Sequence

from lab.control_plane.api import DEPLOYMENT, FIELD_MANAGER, ClusterApi, Manifest


def forget_scaling(api: ClusterApi, name: str, namespace: str, replicas: int) -> None:
    """Undo `kubectl scale` and return the field to Pulumi, which would otherwise get a conflict.

    The field needs an owner: a later scale would not be recorded otherwise.
    """
    live = api.get(DEPLOYMENT, name, namespace)
    if live is None:
        return
    if live["spec"].get("replicas") != replicas:
        # A separate request: changing the number also makes the requester its owner.
        api.patch(DEPLOYMENT, name, namespace, {"spec": {"replicas": replicas}}, subresource="scale")
        live = api.get(DEPLOYMENT, name, namespace) or live
    owners = live["metadata"].get("managedFields") or []
    if (returned := returned_to_pulumi(owners)) != owners:
        api.patch(DEPLOYMENT, name, namespace, {"metadata": {"managedFields": returned}})


def returned_to_pulumi(owners: Sequence[Manifest]) -> list[Manifest]:
    """The managed fields of a Deployment without scaling: its appliers own the number of replicas."""
    found = []
    for owner in owners:
        if owner["manager"] == FIELD_MANAGER and owner.get("subresource") == "scale":
            continue
        fields = owner.get("fieldsV1") or {}
        if owner.get("operation") == "Apply" and "f:spec" in fields:
            fields = {**fields, "f:spec": {**fields["f:spec"], "f:replicas": {}}}
        found.append({**owner, "fieldsV1": fields})
    return found
