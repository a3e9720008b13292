"""Rules for batches of documents: their bucket, what their pods may write, and their ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import money
from conditions import covers
from facts.finding import Finding
from facts.names import BATCH_ACCOUNT, BATCH_MAX_USD
from grants import Grant, grants
from objects import named, namespace_of, number, of_kind, own_name, shown
from pods import quantity
from rule import Resource, Setting, Settings, StackRule, dig, finding, listed, mapped
from rules.spending import limits_spending
from scalers import scalers

_READS: Final = ("roles/storage.objectViewer", "roles/secretmanager.secretAccessor")
_CREATES: Final = "roles/storage.objectCreator"
_KEPT: Final = ("results/00000.jsonl", "shards/00000.jsonl", "batch.json", "terms.json", "summary.json")
"""Objects of a batch that its pods only read or create."""
_BATCH: Final = "batches/b0123456789ab"
"""Where a batch's objects are; the id is an example."""


def _replaceable(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    own = _accounts(resources)
    buckets = set(_buckets(resources, own))
    for grant in _all_grants(resources) if own else ():
        # Role first: it is known in a preview, the accounts may not be.
        if not grant.role or grant.role in _READS:
            continue
        bucket = str(dig(grant.resource.props, "bucket") or "")
        for member in grant.members:
            if not _is_pod(member):
                continue
            if not member.endswith(own):
                if bucket in buckets:
                    yield _found(grant, f"{member} {grant.role} on {bucket}, the bucket of batches")
            elif bucket not in buckets:
                yield _found(grant, f"the batch's pods {grant.role}, which is not about their bucket")
            elif grant.role != _CREATES and (what := _covered(grant, bucket)):
                yield _found(grant, f"the batch's pods {grant.role} on {what}")


def _found(grant: Grant, what: str) -> Finding:
    return finding(f"{grant.resource.label} grants {what}", urn=grant.resource.urn)


def _covered(grant: Grant, bucket: str) -> str:
    """What a grant to replace objects covers and must not; empty where nothing."""
    condition = grant.condition
    if condition is None:
        return "the whole bucket, without a condition"
    try:
        found = [name for name in _KEPT if covers(str(condition), bucket, f"{_BATCH}/{name}")]
    except ValueError:
        return f"objects by a condition that this rule cannot read: {condition}"
    return f"{', '.join(found)} of a batch" if found else ""


def _all_grants(resources: Sequence[Resource]) -> Iterator[Grant]:
    return (grant for resource in resources for grant in grants(resource))


def _is_pod(member: str) -> bool:
    return member.startswith("principal") and "/subject/ns/" in member


def _accounts(resources: Sequence[Resource]) -> tuple[str, ...]:
    """Ends of the principals of a batch's pods; none in a stack without batches."""
    accounts = (one for one in of_kind(resources, "ServiceAccount") if own_name(one) == BATCH_ACCOUNT)
    return tuple(f"/subject/ns/{namespace_of(account)}/sa/{BATCH_ACCOUNT}" for account in accounts)


def _buckets(resources: Sequence[Resource], own: tuple[str, ...]) -> Iterator[str]:
    """Names of the buckets in which a batch's pods create objects."""
    for grant in _all_grants(resources) if own else ():
        if grant.role == _CREATES and any(member.endswith(own) for member in grant.members):
            yield str(dig(grant.resource.props, "bucket") or "")


def _unsound(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    region, names, most = (
        money.region_of(resources),
        set(_buckets(resources, _accounts(resources))),
        settings["mostDays"],
    )
    for bucket in resources:
        if bucket.type != "gcp:storage/bucket:Bucket" or str(dig(bucket.props, "name")) not in names:
            continue
        location = str(dig(bucket.props, "location") or "").lower()
        if region and location != region:
            yield finding(
                f"{bucket.label}: location is {location or 'missing'}, and the servers are in {region}",
                why="documents leave the region in which they are processed, and traffic between regions is billed",
                write=f"location: {region.upper()}",
                urn=bucket.urn,
            )
        days = [
            age for rule in listed(dig(bucket.props, "lifecycleRules")) if (age := _deletes_after(rule)) is not None
        ]
        if not days or min(days) > most:
            kept = f"all objects after {shown(min(days))} days" if days else "not all objects at any age"
            yield finding(f"{bucket.label}: lifecycleRules delete {kept}", urn=bucket.urn)
        elif dig(bucket.props, "versioning", "enabled") is True:
            yield finding(
                f"{bucket.label}: versioning.enabled is true, so what is deleted stays as a version",
                write="versioning: {enabled: false}",
                urn=bucket.urn,
            )


def _deletes_after(rule: Any) -> float | None:
    """Days after which a lifecycle rule deletes every object; None for a rule about some of them."""
    condition = mapped(dig(rule, "condition"))
    narrow = [key for key in condition if key not in ("age", "withState", "sendAgeIfZero") and dig(condition, key)]
    if dig(rule, "action", "type") != "Delete" or narrow or dig(condition, "withState") == "ARCHIVED":
        return None
    return number(dig(condition, "age"))


def _without_ceiling(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    limited = limits_spending(resources)
    for scaler in scalers(resources):
        if not any(scaler.pod_counts):
            continue
        where = named(scaler.resource)
        if number(dig(scaler.spec, "maxReplicaCount")) is None:
            yield scaler.found(f"{where}: spec.maxReplicaCount is missing, and KEDA's default is {shown(scaler.most)}")
        most = quantity(dig(scaler.resource.props, "metadata", "annotations", BATCH_MAX_USD))
        if most is None and not limited:
            yield scaler.found(
                f"{where}: metadata.annotations: {BATCH_MAX_USD} is missing, and no spending guard has a limit",
                fix="batch.maxUsd, or the section spending",
            )


RULES: Final = (
    StackRule(
        name="batch-results-replaceable",
        subject="security",
        statement="A batch's pods cannot replace or delete documents and results, and write nowhere else; no other pod writes them.",
        evidence="a pod that lost its lease goes on for a while and would replace another's results; whatever a document makes a client "
        "do stays within leases, parts and progress. Source: Cloud Storage JSON API, objects.insert: to replace an object requires "
        "storage.objects.delete. Mandatory: a result that took an hour of GPUs exists once",
        fix="roles/storage.objectCreator, and roles/storage.objectUser with a condition for leases/, parts/, progress.json and stop.json",
        level="mandatory",
        severity="high",
        judge=_replaceable,
    ),
    StackRule(
        name="batch-documents-kept",
        subject="storage",
        statement="The bucket of batches is in the servers' region, and deletes documents and results after a limited time.",
        evidence="whoever reads the bucket reads every document that was ever processed and every answer. Source: Cloud Storage "
        "documentation, object lifecycle management. Mandatory: without a rule they stay for ever",
        fix="lifecycleRules: [{action: {type: Delete}, condition: {age: 30}}]; in this program batch.retentionDays. A longer time also in "
        "mostDays of the stack's policy config",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="mostDays", type="number", default=90, unit="days", why="Longest time until an object is deleted"
            ),
        ),
        judge=_unsound,
    ),
    StackRule(
        name="batch-without-ceiling",
        subject="cost",
        statement="A fleet that scales by a batch's pods has a maximum of servers and an amount at which it stops.",
        evidence="servers run as long as a batch does: documents that are longer than planned, or clients that hang, rent every server "
        "until someone looks. Source: keda 2.20.2, kubernetes_workload_scaler.go. Advisory: the batch may be small",
        fix="maxReplicaCount, batch.maxUsd or the section spending",
        level="advisory",
        severity="high",
        judge=_without_ceiling,
    ),
)
