"""A scaled Deployment, handed back to Pulumi."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.rehearse.api import DEPLOYMENT, FIELD_MANAGER, ClusterApi, Manifest


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
