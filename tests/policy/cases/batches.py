"""Cases of a batch's bucket, of what its pods may write, and of its ceiling."""

from __future__ import annotations

from typing import Any

from tests.policy.case import Case, Edit, Props, append, drop, new, of_resource, put, sound, twin

_LEASES, _NEW, _READS = (f"access-batch-{what}" for what in ("leases", "new-results", "batches"))
_BUCKET, _SCALER = "batches-bucket", "autoscaling-scaled-object"
_GRANTS, _KEPT, _CEILING = "batch-results-replaceable", "batch-documents-kept", "batch-without-ceiling"
_ANNOTATIONS = "metadata.annotations"


def _when(expression: str) -> Edit:
    """Another condition of the grant to replace objects."""
    return put(_LEASES, "condition.expression", value=expression)


def _to(account: str, role: str) -> Edit:
    """One more grant on the bucket, for another account of the namespace."""

    def how(props: Props) -> None:
        props["role"] = role
        props["member"] = props["member"].rpartition("/")[0] + f"/{account}"

    return twin("another", _NEW, how)


def _elsewhere(role: str) -> Edit:
    """One more grant of the batch's own pods, on another bucket."""

    def how(props: Props) -> None:
        props["role"], props["bucket"] = role, "weights"

    return twin("another", _NEW, how)


def _deleted(**condition: Any) -> Edit:
    return put(_BUCKET, "lifecycleRules", value=[{"action": {"type": "Delete"}, "condition": condition}])


def _case(rule: str, what: str, *edits: Edit, **limits: Any) -> Case:
    return of_resource(rule, what, *edits, stack="batch", **limits)


def _sound(rule: str, what: str, *edits: Edit, **limits: Any) -> Case:
    return sound(rule, what, *edits, stack="batch", **limits)


_TICKET = new("a-ticket", "gcp:monitoring/alertPolicy:AlertPolicy", {"severity": "WARNING"}, beside=_BUCKET)
_BY_LOAD = put(_SCALER, "spec.triggers.0.type", value="prometheus")

CASES = (
    _sound("page-to-nobody", "tickets of a fleet that serves batches only", _TICKET),
    _case("page-to-nobody", "tickets of a fleet with users", _TICKET, _BY_LOAD),
    _case(_GRANTS, "no condition", drop(_LEASES, "condition")),
    _case(_GRANTS, "results too", _when("resource.name.extract('/batches/{rest}') != ''")),
    _case(
        _GRANTS,
        "the batch itself too",
        _when("resource.name.endsWith('.json')"),
    ),
    _case(_GRANTS, "everything but one", _when("!resource.name.endsWith('/batch.json')")),
    _case(
        _GRANTS,
        "a condition of another kind",
        _when("request.time < timestamp('2030-01-01T00:00:00Z')"),
    ),
    _case(
        _GRANTS,
        "who creates replaces",
        put(_NEW, "role", value="roles/storage.objectAdmin"),
        put(_LEASES, "role", value="roles/storage.objectCreator"),
    ),
    _case(_GRANTS, "servers write results", _to("vllm-server", "roles/storage.objectCreator")),
    _case(_GRANTS, "clients write weights", _elsewhere("roles/storage.objectUser")),
    _sound(_GRANTS, "leases alone", _when("resource.name.extract('/objects/batches/{batch}/leases/') != ''")),
    _sound(_GRANTS, "servers read results", _to("vllm-server", "roles/storage.objectViewer")),
    _sound(_GRANTS, "clients read weights", _elsewhere("roles/storage.objectViewer")),
    _case(_KEPT, "nothing is deleted", drop(_BUCKET, "lifecycleRules")),
    _case(_KEPT, "after ten years", _deleted(age=3650.0)),
    _case(_KEPT, "some of it", _deleted(age=30.0, matchesPrefixes=["batches/b1"])),
    _case(_KEPT, "old versions only", _deleted(age=30.0, withState="ARCHIVED")),
    _case(_KEPT, "what is deleted stays as a version", put(_BUCKET, "versioning", value={"enabled": True})),
    _case(_KEPT, "another region", put(_BUCKET, "location", value="US")),
    _case(_KEPT, "a shorter limit", _deleted(age=60.0), mostDays=30),
    _sound(_KEPT, "a year where the stack says so", _deleted(age=365.0), mostDays=400),
    _sound(
        _KEPT,
        "one more rule about some of it",
        append(
            _BUCKET,
            "lifecycleRules",
            {"action": {"type": "Delete"}, "condition": {"age": 1.0, "matchesPrefixes": ["tmp/"]}},
        ),
    ),
    _case(_CEILING, "no amount", drop(_SCALER, _ANNOTATIONS)),
    _case(_CEILING, "an amount that is none", put(_SCALER, _ANNOTATIONS, "vllm-fleet.dev/batch-max-usd", value="much")),
    _case(_CEILING, "a hundred servers", drop(_SCALER, "spec.maxReplicaCount")),
    _sound(_CEILING, "more servers", put(_SCALER, "spec.maxReplicaCount", value=8.0)),
)
