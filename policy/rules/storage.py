"""Rules for weights volumes: readers, writers, limits, and what survives a deletion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
)
from pods import quantity, servers
from rule import Resource, Setting, Settings, StackRule, dig, finding, listed, mapped

DISK = "gcp:compute/disk:Disk"
CLUSTER = "gcp:container/cluster:Cluster"
DRIVER = "pd.csi.storage.gke.io"
IMAGES = "images"
LOAD_SECONDS = 300
"""Assumed: half of the ten-minute start of the article; the rest is for compiling and graph capture."""


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim and its StorageClass."""

    resource: Resource
    storage_class: Resource | None

    @property
    def modes(self) -> tuple[str, ...]:
        """Its access modes."""
        return tuple(str(mode) for mode in listed(dig(self.resource.props, "spec", "accessModes")))

    @property
    def is_read_only(self) -> bool:
        """Whether it can only be mounted read-only."""
        return self.modes == ("ReadOnlyMany",)

    @property
    def class_name(self) -> str:
        """Its class, "" for the cluster's default."""
        return str(dig(self.resource.props, "spec", "storageClassName") or "")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of its class; empty where another stack owns the class."""
        return mapped(dig(self.storage_class.props, "parameters")) if self.storage_class else {}

    @property
    def disk_type(self) -> str:
        """Type of its disk, "" where unknown."""
        if self.storage_class is None:
            return disks.DEFAULT_CLASSES.get(self.class_name, "")
        if dig(self.storage_class.props, "provisioner") != DRIVER:
            return ""
        # Source: the driver's parameters; its default is pd-standard.
        return str(dig(self.parameters, "type") or "pd-standard")

    @property
    def size_gib(self) -> float:
        """Its size, 0 where missing."""
        return (quantity(dig(self.resource.props, "spec", "resources", "requests", "storage")) or 0) / 2**30

    @property
    def throughput_mibps(self) -> float | None:
        """Provisioned throughput, None where the class sets none."""
        asked = quantity(dig(self.parameters, "provisioned-throughput-on-create"))
        return None if asked is None else asked / 2**20


def _claims(resources: Sequence[Resource]) -> dict[tuple[str, str], Claim]:
    classes = cluster_wide(resources, "StorageClass")
    found = by_key(resources, "PersistentVolumeClaim")
    return {
        key: Claim(one, classes.get(str(dig(one.props, "spec", "storageClassName") or "")))
        for key, one in found.items()
    }


def _mounted(resources: Sequence[Resource]) -> Iterator[MountedClaim]:
    for pod in all_pods(resources):
        yield from mounted_claims(pod)


def _holds_model(mounted: MountedClaim) -> bool:
    """Whether a vLLM server loads its model from this volume."""
    models = [server.flags.model or "" for server in servers(mounted.pod.resource) if server.pod is mounted.pod]
    return any(is_below(model, mount.folder) for model in models for mount in mounted.mounts)


def _reader_writable(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    claims = _claims(resources)
    for mounted in _mounted(resources):
        claim = claims.get(mounted.claim)
        if not (_holds_model(mounted) or (claim is not None and claim.is_read_only)):
            continue
        pod = mounted.pod
        label, stake = named(pod.resource), money.at_stake(pod.resource)
        if not mounted.read_only:
            yield finding(
                f"{label}: {mounted.path}.persistentVolumeClaim mounts {mounted.claim[1]} without readOnly: true",
                urn=pod.resource.urn,
                at_stake=stake,
            )
        for mount in mounted.mounts:
            if not mount.read_only:
                yield finding(
                    f"{label}: {mount.path} mounts the weights of {mounted.claim[1]} writable",
                    urn=pod.resource.urn,
                    at_stake=stake,
                )


def _disks(resources: Sequence[Resource]) -> Iterator[Resource]:
    for resource in resources:
        if resource.type == DISK and str(dig(resource.props, "type") or "").rpartition("/")[2] == disks.TYPE:
            yield resource


def _slow(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    budget = float(settings["loadSeconds"])
    claims = _claims(resources)
    for key in sorted(claims):
        claim = claims[key]
        pods = [one.pod for one in _mounted(resources) if one.claim == key and servers(one.pod.resource)]
        readers, throughput = sum(pod.gpu_nodes if pod.gpus else pod.replicas for pod in pods), claim.throughput_mibps
        if claim.disk_type != disks.TYPE or not readers or not throughput:
            continue
        seconds = readers * claim.size_gib * 1024 / throughput
        if seconds > budget:
            needed = readers * claim.size_gib * 1024 / budget
            yield finding(
                f"{named(claim.resource)}: {readers} readers share {throughput:g} MiB/s, so loading a full volume of "
                f"{claim.size_gib:g} GiB takes {seconds:,.0f} s; allowed: {budget:,.0f} s",
                write=f"provisioned-throughput-on-create: {-(-needed // 100) * 100:.0f}Mi in a new StorageClass",
                urn=claim.resource.urn,
                at_stake="; ".join(stake for pod in pods if (stake := money.at_stake(pod.resource)))
                + f", without serving for {seconds:,.0f} s at each start",
            )


def _elsewhere(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    clusters = [resource for resource in resources if resource.type == CLUSTER]
    if len(clusters) != 1:  # among several, which one a class or pod is for is not known
        return
    region = money.region_of(clusters)
    for resource in resources:
        wrong = [zone for zone in money.zones_of(resource) if region and not zone.startswith(f"{region}-")]
        if wrong:
            yield finding(
                f"{named(resource)}: {', '.join(dict.fromkeys(wrong))}, and the cluster is in {region}",
                urn=resource.urn,
                at_stake=money.at_stake(resource),
            )


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
    if not production:
        return
    reason = f"production ({production}), and "
    stake = "; ".join(text for resource in resources if any(servers(resource)) and (text := money.at_stake(resource)))
    for claim in _claims(resources).values():
        if claim.is_read_only and (why := _loses_weights(resources, claim)):
            yield finding(f"{named(claim.resource)}: {reason}{why}", urn=claim.resource.urn, at_stake=_idle(stake))
    for disk in _disks(resources):
        if not disk.protect and dig(disk.props, "deletionPolicy") not in ("PREVENT", "ABANDON"):
            yield finding(
                f"{disk.label}: {reason}neither protect nor deletionPolicy keeps the disk",
                write="ResourceOptions(protect=True), or deletion_policy='PREVENT'",
                urn=disk.urn,
                at_stake=_idle(stake),
            )


def _idle(stake: str) -> str:
    return f"{stake}, idle while the weights are downloaded again" if stake else ""


def _loses_weights(resources: Sequence[Resource], claim: Claim) -> str:
    """Why deleting this claim would delete the weights; empty where something keeps them."""
    if claim.resource.protect:
        return ""
    source = mapped(dig(claim.resource.props, "spec", "dataSource"))
    if not source:
        volume = cluster_wide(resources, "PersistentVolume").get(
            str(dig(claim.resource.props, "spec", "volumeName") or "")
        )
        keeper = volume or claim.storage_class
        if keeper is None:
            return ""
        policy = (
            dig(volume.props, "spec", "persistentVolumeReclaimPolicy")
            if volume is not None
            else dig(keeper.props, "reclaimPolicy")
        )
        # Source: Kubernetes defaults: volumes of a class are deleted, manually created ones retained.
        policy = policy or ("Retain" if volume is not None else "Delete")
        return "" if policy == "Retain" else f"it is the only copy, and {named(keeper)} deletes it with the claim"
    if dig(source, "kind") != "VolumeSnapshot":
        return ""
    key = (namespace_of(claim.resource), str(dig(source, "name") or ""))
    snapshot = by_key(resources, "VolumeSnapshot").get(key)
    if snapshot is None or snapshot.protect:
        return ""
    class_name = str(dig(snapshot.props, "spec", "volumeSnapshotClassName") or "")
    snapshot_class = cluster_wide(resources, "VolumeSnapshotClass").get(class_name)
    if snapshot_class is None or dig(snapshot_class.props, "deletionPolicy") == "Retain":
        return ""
    return (
        f"VolumeSnapshotClass {class_name} has deletionPolicy {dig(snapshot_class.props, 'deletionPolicy')}, "
        "so the image is deleted with the stack"
    )


RULES = (
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
        name="throughput-below-readers",
        subject="storage",
        statement="A weights volume has enough throughput for all readers to start together.",
        evidence="readers share the volume's throughput: twelve readers of 29 GB take about 70 s at 4,800 MiB/s, and 14 minutes of paid "
        "GPUs at the lowest throughput. Advisory: it is slow, not broken",
        fix="raise provisioned-throughput-on-create in a new StorageClass",
        level="advisory",
        severity="medium",
        settings=(
            Setting(
                name="loadSeconds",
                type="number",
                default=LOAD_SECONDS,
                unit="s",
                why="Longest time for all replicas to read the whole volume when they start together",
            ),
        ),
        judge=_slow,
    ),
    StackRule(
        name="zone-outside-region",
        subject="storage",
        statement="Volumes and pods are in zones of the cluster's region.",
        evidence="a volume of another region is never attached, and pods that select a zone without nodes stay Pending. Mandatory: nothing "
        "can start. Not judged without exactly one cluster in the stack",
        fix="a zone of the cluster's region in allowedTopologies and nodeSelector",
        level="mandatory",
        severity="high",
        judge=_elsewhere,
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
)
