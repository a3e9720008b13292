"""Rules for weights volumes and buckets: readers, and what survives a deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import money
from environment import ENVIRONMENT, why_production
from facts import disks
from facts.finding import Finding
from objects import (
    MountedClaim,
    all_pods,
    by_key,
    cluster_wide,
    is_below,
    mounted_claims,
    named,
    namespace_of,
    number,
)
from pods import servers
from rule import Resource, ResourceRule, Settings, StackRule, dig, finding, listed, mapped
from tokens import BUCKET, DISK

LEAST_DAYS: Final = 7
"""For which results are kept. Assumed: somebody looks once a week."""


def _is_read_only(claim: Resource | None) -> bool:
    """Whether a PersistentVolumeClaim can only be mounted read-only."""
    return claim is not None and list(listed(dig(claim.props, "spec", "accessModes"))) == ["ReadOnlyMany"]


def _holds_model(mounted: MountedClaim) -> bool:
    """Whether a vLLM server loads its model from this volume."""
    models = [server.flags.model or "" for server in servers(mounted.pod.resource)]
    return any(is_below(model, mount.folder) for model in models for mount in mounted.mounts)


def _reader_writable(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    claims = by_key(resources, "PersistentVolumeClaim")
    for mounted in (mounted for pod in all_pods(resources) for mounted in mounted_claims(pod)):
        if not (_holds_model(mounted) or _is_read_only(claims.get(mounted.claim))):
            continue
        reader, name = mounted.pod.resource, mounted.claim[1]
        wrong = [
            f"{mount.path} mounts the weights of {name} writable" for mount in mounted.mounts if not mount.read_only
        ]
        if not mounted.read_only:
            wrong.append(f"{mounted.path}.persistentVolumeClaim mounts {name} without readOnly: true")
        for what in wrong:
            yield finding(f"{named(reader)}: {what}", urn=reader.urn)


def _unprotected(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for content in cluster_wide(resources, "VolumeSnapshotContent").values():
        if dig(content.props, "spec", "deletionPolicy") != "Retain":
            yield finding(
                f"{named(content)}: deletionPolicy is {dig(content.props, 'spec', 'deletionPolicy')}",
                why="the image existed before this stack, and would be deleted with it",
                write="spec.deletionPolicy: Retain",
                urn=content.urn,
            )
    production = why_production(resources, settings)
    stake = "; ".join(text for resource in resources if any(servers(resource)) and (text := money.at_stake(resource)))
    idle = f"{stake}, idle while the weights are downloaded again" if stake else ""
    for one in resources if production else ():
        if (why := _loses_weights(resources, one)) and not one.protect:
            yield finding(f"{named(one)}: production ({production}), and {why}", urn=one.urn, at_stake=idle)


def _loses_weights(resources: Sequence[Resource], one: Resource) -> str:
    """Why deleting this disk or claim would delete the weights; empty where something keeps them."""
    if one.type == DISK and str(dig(one.props, "type") or "").rpartition("/")[2] == disks.TYPE:
        kept = dig(one.props, "deletionPolicy") in ("PREVENT", "ABANDON")
        return "" if kept else "neither protect nor deletionPolicy keeps the disk"
    if one.kind != "PersistentVolumeClaim" or not _is_read_only(one):
        return ""
    source = dig(one.props, "spec", "dataSource")
    if source is None:
        keeper = cluster_wide(resources, "StorageClass").get(str(dig(one.props, "spec", "storageClassName")))
        # Source: Kubernetes: volumes of a class are deleted by default.
        gone = keeper is not None and dig(keeper.props, "reclaimPolicy") in (None, "Delete")
        return f"it is the only copy, and {named(keeper)} deletes it with the claim" if keeper and gone else ""
    snapshot = by_key(resources, "VolumeSnapshot").get((namespace_of(one), str(dig(source, "name"))))
    if snapshot is None or snapshot.protect:
        return ""
    name = str(dig(snapshot.props, "spec", "volumeSnapshotClassName"))
    keeper = cluster_wide(resources, "VolumeSnapshotClass").get(name)
    if keeper is None or dig(keeper.props, "deletionPolicy") == "Retain":
        return ""
    return f"VolumeSnapshotClass {name} has deletionPolicy {dig(keeper.props, 'deletionPolicy')}, so the image is deleted with the stack"


def _forgetful_bucket(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != BUCKET or dig(resource.props, "labels", "scratch") == "true":
        return
    if dig(resource.props, "forceDestroy") is True:
        yield finding("forceDestroy is true", write="forceDestroy: false; empty the bucket manually before deleting it")
    for index, rule in enumerate(listed(dig(resource.props, "lifecycleRules"))):
        condition = mapped(dig(rule, "condition"))
        soon = set(condition) <= {"age"} and (number(dig(condition, "age")) or 0) < LEAST_DAYS
        if dig(rule, "action", "type") == "Delete" and soon:
            yield finding(
                f"lifecycleRules[{index}] deletes objects in their first week", write="condition: {age: DAYS}"
            )


RULES: Final = (
    StackRule(
        name="reader-mounts-writable",
        subject="storage",
        statement="Readers of weights mount the volume read-only, in the claim and in the mount.",
        evidence="a Hyperdisk ML disk attached for writing goes to one node, and the other replicas wait for it indefinitely; a writable "
        "mount lets one process change what every replica loads. Source: Google Cloud, About Hyperdisk ML. Mandatory: pods stay Pending "
        "while their nodes are paid for",
        fix="readOnly: true in the volume's persistentVolumeClaim and in the container's volumeMount",
        level="mandatory",
        severity="high",
        judge=_reader_writable,
    ),
    StackRule(
        name="weights-unprotected",
        subject="storage",
        statement="In production, weights survive the deletion of a claim or a stack.",
        evidence="lost weights must be downloaded again, about ten minutes for 29 GB, while starting replicas wait on paid nodes. "
        "Mandatory in production only: elsewhere a download is acceptable",
        fix="deletionPolicy: Retain in the VolumeSnapshotClass (the image outlives the claims), or protect the claim",
        level="mandatory",
        severity="high",
        settings=(ENVIRONMENT,),
        judge=_unprotected,
    ),
    ResourceRule(
        name="bucket-loses-results",
        subject="storage",
        statement="A bucket keeps its objects, even when its stack is destroyed.",
        evidence="a measurement costs hundreds of dollars and exists once. Source: Cloud Storage documentation, lifecycle; pulumi-gcp, "
        "Bucket.forceDestroy. Advisory: a bucket labeled scratch=true may be deleted with its contents",
        fix="forceDestroy: false, and no lifecycle rule that deletes in the first week",
        level="advisory",
        severity="medium",
        judge=_forgetful_bucket,
    ),
)
