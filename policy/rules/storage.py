"""Rules for weights volumes: readers, writers, limits, and what survives a deletion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import money
from environment import ENVIRONMENT, why_production
from facts import disks
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
    own_name,
)
from pods import GKE, Pod, quantity, servers
from rule import Finding, Resource, Setting, Settings, StackRule, dig, listed, mapped

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
        return tuple(str(one) for one in listed(dig(self.resource.props, "spec", "accessModes")))

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
    models = [one.flags.model or "" for one in servers(mounted.pod.resource) if one.pod is mounted.pod]
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
            yield Finding(
                what=f"{label}: {mounted.path}.persistentVolumeClaim mounts {mounted.claim[1]} without readOnly: true",
                urn=pod.resource.urn,
                at_stake=stake,
            )
        for mount in mounted.mounts:
            if not mount.read_only:
                yield Finding(
                    what=f"{label}: {mount.path} mounts the weights of {mounted.claim[1]} writable",
                    urn=pod.resource.urn,
                    at_stake=stake,
                )


def _writer_read_only(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    claims = _claims(resources)
    for mounted in _mounted(resources):
        claim = claims.get(mounted.claim)
        if claim is None or claim.is_read_only or claim.disk_type != disks.TYPE or servers(mounted.pod.resource):
            continue
        where = named(mounted.pod.resource)
        if mounted.read_only:
            yield Finding(
                what=f"{where}: {mounted.path}.persistentVolumeClaim.readOnly is true, and {mounted.claim[1]} "
                f"({', '.join(claim.modes)}) is the volume that it writes",
                urn=mounted.pod.resource.urn,
            )
        elif mounted.mounts and all(mount.read_only for mount in mounted.mounts):
            yield Finding(
                what=f"{where}: every mount of {mounted.claim[1]} ({', '.join(claim.modes)}) is readOnly",
                why="the volume is attached for writing, but no container can write to it: the weights never arrive",
                fix=f"remove readOnly from {mounted.mounts[0].path}",
                urn=mounted.pod.resource.urn,
            )


def _readers(resources: Sequence[Resource], key: tuple[str, str]) -> int:
    return sum(one.pod.replicas for one in _mounted(resources) if one.claim == key)


def _hyperdisk_limit(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for key, claim in _claims(resources).items():
        if claim.disk_type != disks.TYPE:
            continue
        label, urn = named(claim.resource), claim.resource.urn
        for broken in disks.check_volume(
            size_gib=claim.size_gib, throughput_mibps=claim.throughput_mibps, readers=_readers(resources, key)
        ):
            yield Finding(
                what=f"{label}, StorageClass {claim.class_name}: {_format_limit(broken)}", fix=broken.remedy, urn=urn
            )
        if "ReadWriteMany" in claim.modes:
            yield Finding(
                what=f"{label}: spec.accessModes has ReadWriteMany, which Hyperdisk ML does not support", urn=urn
            )
        if dig(claim.parameters, "provisioned-iops-on-create") is not None:
            yield Finding(
                what=f"StorageClass {claim.class_name}: parameters has provisioned-iops-on-create",
                why="IOPS follow from the throughput (16 for each MiB/s) and cannot be set; "
                "source: Google Cloud, About Hyperdisk for GKE",
                fix="remove provisioned-iops-on-create",
                urn=urn,
            )
    for disk in _disks(resources):
        size, throughput = number(dig(disk.props, "size")), number(dig(disk.props, "provisionedThroughput"))
        if size is not None:
            for broken in disks.check_volume(size_gib=size, throughput_mibps=throughput):
                yield Finding(what=f"{disk.label}: {_format_limit(broken)}", fix=broken.remedy, urn=disk.urn)


def _format_limit(broken: disks.Finding) -> str:
    unit = {"size_gib": "GiB", "throughput_mibps": "MiB/s", "readers": "readers"}[broken.field]
    return f"{broken.value:g} {unit}: {broken.message}"


def _disks(resources: Sequence[Resource]) -> Iterator[Resource]:
    for one in resources:
        if one.type == DISK and str(dig(one.props, "type") or "").rpartition("/")[2] == disks.TYPE:
            yield one


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
            yield Finding(
                what=f"{named(claim.resource)}: {readers} readers share {throughput:g} MiB/s, so loading a full volume of "
                f"{claim.size_gib:g} GiB takes {seconds:,.0f} s; allowed: {budget:,.0f} s",
                fix=f"provisioned-throughput-on-create: {-(-needed // 100) * 100:.0f}Mi in a new StorageClass",
                urn=claim.resource.urn,
                at_stake="; ".join(stake for pod in pods if (stake := money.at_stake(pod.resource)))
                + f", without serving for {seconds:,.0f} s at each start",
            )


def _family(pod: Pod) -> str:
    """Machine family that the pod selects, "" where several match."""
    if pod.machines:
        return pod.machines[0].family
    machine = pod.selector("node.kubernetes.io/instance-type")
    return machine.partition("-")[0] if machine else pod.selector(f"{GKE}/machine-family") or ""


def _cannot_attach(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    claims = _claims(resources)
    autopilot = any(one.type == CLUSTER and dig(one.props, "enableAutopilot") is True for one in resources)
    for mounted in _mounted(resources):
        claim, pod = claims.get(mounted.claim), mounted.pod
        if claim is None or not claim.disk_type:
            continue
        family = _family(pod)
        reason = disks.cannot_attach(claim.disk_type, family) if family else ""
        if not family and autopilot and not pod.gpus and not pod.compute_class and claim.disk_type == disks.TYPE:
            reason = "without compute-class and machine-family Autopilot chooses a general-purpose node, which cannot attach it"
        if reason:
            wanted = f"cloud.google.com/machine-family {family}" if family else "no machine"
            yield Finding(
                what=f"{named(pod.resource)} selects {wanted} and mounts {mounted.claim[1]}, a {claim.disk_type} disk",
                why=f"{reason}: the pod waits for its volume indefinitely, and only an event reports it",
                urn=pod.resource.urn,
                at_stake=money.at_stake(pod.resource),
            )


def _unprotected(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for content in cluster_wide(resources, "VolumeSnapshotContent").values():
        if dig(content.props, "spec", "deletionPolicy") != "Retain":
            yield Finding(
                what=f"{named(content)}: deletionPolicy is {dig(content.props, 'spec', 'deletionPolicy')}",
                why="the image existed before this stack, and would be deleted with it",
                fix="spec.deletionPolicy: Retain",
                urn=content.urn,
            )
    production = why_production(resources, settings)
    if not production:
        return
    reason = f"production ({production}), and "
    stake = "; ".join(text for one in resources if any(servers(one)) and (text := money.at_stake(one)))
    for claim in _claims(resources).values():
        if claim.is_read_only and (why := _loses_weights(resources, claim)):
            yield Finding(what=f"{named(claim.resource)}: {reason}{why}", urn=claim.resource.urn, at_stake=_idle(stake))
    for disk in _disks(resources):
        if not disk.protect and dig(disk.props, "deletionPolicy") not in ("PREVENT", "ABANDON"):
            yield Finding(
                what=f"{disk.label}: {reason}neither protect nor deletionPolicy keeps the disk",
                fix="ResourceOptions(protect=True), or deletion_policy='PREVENT'",
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


def _by_snapshot(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    claims = _claims(resources)
    snapshots = by_key(resources, "VolumeSnapshot")
    classes = cluster_wide(resources, "VolumeSnapshotClass")
    for key in sorted(claims):
        claim = claims[key]
        source = mapped(dig(claim.resource.props, "spec", "dataSource"))
        if claim.disk_type != disks.TYPE or dig(source, "kind") != "VolumeSnapshot":
            continue
        snapshot = snapshots.get((key[0], str(dig(source, "name") or "")))
        made_by = None if snapshot is None else classes.get(str(dig(snapshot.props, "spec", "volumeSnapshotClassName")))
        kind = None if made_by is None else dig(made_by.props, "parameters", "snapshot-type") or "snapshots"
        if made_by is not None and kind != IMAGES:
            yield Finding(
                what=f"{named(claim.resource)} is restored from a disk snapshot: VolumeSnapshotClass {own_name(made_by)} "
                f"has snapshot-type {kind}",
                urn=claim.resource.urn,
            )


def _replays_journal(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for claim in _claims(resources).values():
        if dig(claim.resource.props, "spec", "dataSource", "kind") != "VolumeSnapshot" or not claim.is_read_only:
            continue
        storage_class = claim.storage_class
        if storage_class is None or dig(storage_class.props, "provisioner") != DRIVER:
            continue
        if "noload" not in listed(dig(storage_class.props, "mountOptions")):
            yield Finding(
                what=f"{named(claim.resource)}: noload is missing in mountOptions of {named(storage_class)}",
                urn=storage_class.urn,
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
        name="writer-mounted-read-only",
        subject="storage",
        statement="A writer of weights does not mount the volume read-only.",
        evidence="attaching a Hyperdisk ML disk with readOnly: true makes it READ_ONLY_MANY for good, so it stays empty. Source: "
        "persistent-disk CSI driver, controller.go. Mandatory: the volume is lost",
        fix="remove readOnly from the writer's persistentVolumeClaim; give readers a separate claim (ReadOnlyMany)",
        level="mandatory",
        severity="critical",
        judge=_writer_read_only,
    ),
    StackRule(
        name="hyperdisk-limit",
        subject="storage",
        statement="A Hyperdisk ML volume is within Google's limits on size, throughput and readers.",
        evidence="Google refuses the volume, or readers beyond the limit never attach. Source: Google Cloud, About Hyperdisk for GKE; "
        "Compute Engine release notes, 2026-03. Mandatory: the API refuses it only after minutes of waiting",
        fix="choose size and throughput within the limit, in a new StorageClass and claim: neither can be changed in place",
        level="mandatory",
        severity="high",
        judge=_hyperdisk_limit,
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
        name="machine-cannot-attach-disk",
        subject="storage",
        statement="A pod mounts only disk types that its machine can attach.",
        evidence="A4, G4, C4 and C4A attach only Hyperdisk; C4, N2, N4 and E2 attach no Hyperdisk ML. Source: persistent-disk CSI driver, "
        "table of machines, 2026-08; GKE cluster autoscaler. Mandatory: the pod never starts",
        fix="for a writer: compute-class Performance with machine-family c4a; for scratch space: a hyperdisk-balanced class",
        level="mandatory",
        severity="high",
        judge=_cannot_attach,
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
    StackRule(
        name="reader-replays-journal",
        subject="storage",
        statement="A read-only volume restored from an image is mounted with noload.",
        evidence="a Job completes before its node unmounts the disk, so the image has an open ext4 journal. The first mount of the "
        "read-only disk fails, and the driver's second mount skips read_ahead_kb. Source: persistent-disk CSI driver, node.go, "
        "NodeStageVolume. Advisory: weights load slowly, but correctly",
        fix="mountOptions: [noload, read_ahead_kb=4096] in the readers' StorageClass",
        level="advisory",
        severity="medium",
        judge=_replays_journal,
    ),
    StackRule(
        name="weights-copied-by-snapshot",
        subject="storage",
        statement="Readers' volumes are restored from a disk image, not from a snapshot.",
        evidence="Compute Engine limits restores of a snapshot to about six an hour; images have no such limit. Source: Compute Engine "
        "documentation, snapshots. Advisory: a single zone rarely restores more often",
        fix="parameters: {snapshot-type: images} in the VolumeSnapshotClass",
        level="advisory",
        severity="low",
        judge=_by_snapshot,
    ),
)
