"""Model weights as an immutable release: one download, one disk image, one read-only volume for all replicas.

Order matters: the image is taken only after the Job has ended, because an image of a disk in
use holds half a file system. The readers' claim follows the image. The writer's node may
still have the file system mounted: the script has synced it, and readers do not replay its journal.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from facts.disks import throughput_floor_mibps
from facts.hub import HUB
from settings.sections.model import Adapter, Model
from settings.sections.secret_stores import SecretManagerSecret
from settings.sections.weights import MOUNT_PATH, WRITER_CPU, WRITER_FAMILY, WRITER_MEMORY_GIB
from settings.sections.weights import Weights as VolumeSection
from workloads import c4_nodes, secret_files
from workloads.names import (
    HF_TOKEN_KEY,
    HF_TOKEN_PATH,
    HF_TOKEN_SECRET,
    WRITER_ACCOUNT,
    WRITER_APP,
    own_labels,
    service_account,
    stack_labels,
)
from workloads.weights.hf_token import token_mount, token_volume

if TYPE_CHECKING:
    from pulumi_kubernetes.batch.v1 import JobSpecArgsDict, PodFailurePolicyRuleArgsDict
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        PersistentVolumeClaimSpecArgsDict,
        PodSpecArgsDict,
        TypedLocalObjectReferenceArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

WRITER_IMAGE = "alpine/git:v2.49.1@sha256:c0280cf9572316299b08544065d3bf35db65043d5e3963982ec50647d2746e26"
"""Git and Git LFS, for Arm and x86. Source: Docker Hub, alpine/git."""
DRIVER = "pd.csi.storage.gke.io"
ZONE_KEY = "topology.gke.io/zone"
"""Zone key of the CSI driver's volumes; nodes use topology.kubernetes.io/zone."""
READ_AHEAD_KB = 4096
"""Read-ahead for sequential reads. Source: GKE docs and samples for Hyperdisk ML."""
NO_JOURNAL = "noload"
"""Mount option for an image of a mounted disk: ext4 would replay the journal, which a read-only disk refuses.
The driver would then mount with this option itself, but without READ_AHEAD_KB. docs/decisions/06-weights.md."""
NONROOT = 65532
"""User and group of the writer; it owns no file of its image."""

SLOWEST_DOWNLOAD_MB_PER_S = 25
# Assumed: a quarter of a C4A pod's usual rate through Cloud NAT; only sizes the timeout.
STARTUP_MINUTES = 30
# Assumed: a C4A node, the image pull, and margin.
STORAGE_TIMEOUT = "60m"
"""Timeout of image and volume creation. Source: GKE docs measured about 3 minutes for 100 GB; 64 TiB takes far longer."""
FIND_TIMEOUT = "5m"
"""Timeout for the driver to find an existing image. Assumed: seconds; a wrong name is never found."""

_SCRIPT = "weights_download.sh"
_UNTIL_READY = {"pulumi.com/waitFor": "jsonpath={.status.readyToUse}=true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsMount:
    """A server's mount of the weights' volume."""

    claim_name: pulumi.Input[str]
    mount_path: str
    model_path: str
    """The model's folder, for vLLM's model argument."""
    depends_on: tuple[pulumi.Resource, ...]
    """Resource that must exist before a pod can mount the claim."""
    written_here: bool = True
    """Whether a pod of this release wrote the volume, and so had a node."""

    def volume(self) -> VolumeArgsDict:
        """The pod's volume. The claim is read-only too: otherwise the disk attaches for writing, to one node."""
        return {"name": "weights", "persistent_volume_claim": {"claim_name": self.claim_name, "read_only": True}}

    def volume_mount(self) -> VolumeMountArgsDict:
        """The container's mount of that volume."""
        return {"name": "weights", "mount_path": self.mount_path, "read_only": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNames:
    """Object names of one release. Everything that cannot change on an existing disk is part of the name, so a
    change creates a new volume and keeps the old one, which goes when no pod mounts it. Resources of the program have the
    same names: another release is other resources, not a replacement. A replacement that fails half way leaves the old
    object waiting for its deletion under the URN of the new one, and going back to it meets "already exists" every time.
    All begin with `weights`, and names of cluster-wide objects in the cluster with the prefix of classes before it.
    """

    release: str
    """Model and short revision; also the family of the disk image."""
    volume: str
    writer: str
    script: str
    reader: str
    writer_class: str
    reader_class: str
    image_class: str
    image_content: str
    """The object that represents an existing image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsArgs:
    """Arguments of `Weights`."""

    namespace: pulumi.Input[str]
    """Namespace of the writer and of pods that mount the volume."""
    image: pulumi.Input[str]
    """Full name of `WRITER_IMAGE`."""
    model: Model
    """The release: Hugging Face repository, commit, size in GB (10**9 bytes), and LoRA adapters that are downloaded with it."""
    volume: VolumeSection = field(default_factory=VolumeSection)
    """Source (`hyperdisk`: one download to one volume for all replicas; `image`: that volume from a
    disk image, at least as large as the image; `huggingface`: each replica downloads, and only the token is created),
    volume size and throughput, and the writer's machine. `token_secret` is ignored here."""
    zones: tuple[str, ...]
    """Zones of the servers, all of one region, e.g. ("us-central1-b",): one volume per zone."""
    class_prefix: str
    """Name prefix of storage and snapshot classes, e.g. the namespace's name: classes are cluster-wide."""
    hf_token: pulumi.Output[str] | SecretManagerSecret | secret_files.Stored | None = None
    """Hugging Face token for a gated model, the Secret Manager secret with it, or `Weights.token` of other weights of the namespace."""
    beside: Weights | None = None
    """The namespace's first weights, for further ones: they use its service account, and its name in those of the program's resources. So
    what they have written stays the same resources (URN included) when the first take its release over (docs/decisions/20-rollout.md)."""
    disk_labels: Mapping[str, str] = field(default_factory=dict)
    """Google Cloud labels of the disks, e.g. {"team": "inference"}."""


def _region(zone: str) -> str:
    return zone.rpartition("-")[0]


def release_names(args: WeightsArgs) -> ReleaseNames:
    """Object names of this release."""
    model = args.model
    # A different image, or other adapters, is a different volume, even for the same model and revision.
    content = [args.volume.image_handle] if args.volume.image else []
    content += [f"{adapter.folder}@{adapter.revision}" for adapter in model.adapters]
    digest = f"-{hashlib.sha256(' '.join(content).encode()).hexdigest()[:6]}" if content else ""
    # 36 characters: with revision, size and content, the names of a Job's pods stay within 63.
    slug = re.sub(r"[^a-z0-9]+", "-", model.id.rpartition("/")[2].lower())
    slug = slug[: 36 - (len(digest) if model.adapters else 0)].strip("-")
    release = f"weights-{slug}-{model.revision[:7]}"
    volume = f"{release}-{args.volume.size_gib}gib{digest}"
    zones = "-".join(sorted(zone.rpartition("-")[2] for zone in args.zones))
    return ReleaseNames(
        release=release,
        volume=volume,
        writer=f"{volume}-writer",
        script=f"{volume}-script",
        reader=f"{volume}-{args.volume.throughput_mibps}mibps-{zones}",
        writer_class=f"{release}-writer-{writer_throughput_mibps(args.volume.size_gib)}mibps",
        reader_class=f"{release}-{args.volume.throughput_mibps}mibps-{zones}",
        image_class=release,
        image_content=volume,
    )


def model_path(model: Model) -> str:
    """The model's folder in pods."""
    return f"{MOUNT_PATH}/{model.id}"


def writer_throughput_mibps(size_gib: int) -> int:
    """Throughput of the writer's volume: the minimum, because the network is slower and throughput is billed."""
    return math.ceil(throughput_floor_mibps(size_gib))


def download_minutes(model: Model) -> int:
    """Timeout of the download in minutes: startup plus a slow connection."""
    return STARTUP_MINUTES + math.ceil(model.size_gb * 1000 / SLOWEST_DOWNLOAD_MB_PER_S / 60)


class Weights(pulumi.ComponentResource):
    """The weights of one model. With `source="huggingface"` there is no volume: each replica downloads. With `source="image"`
    there is no writer: the volume is created from an existing image, which this component never changes or deletes.
    """

    mount: WeightsMount | None
    """A server's mount of the weights; None if each replica downloads."""
    token: secret_files.Stored | None
    """The stored Hugging Face token; None without a token."""

    def __init__(self, name: str, args: WeightsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Weights", name, None, opts)
        child, self.token = pulumi.ResourceOptions(parent=self), None
        needed: list[pulumi.Resource] = []
        if args.hf_token is not None:
            self.token = secret_files.stored(
                args.hf_token,
                key=HF_TOKEN_KEY,
                secret_name=f"{name}-token-secret",
                class_name=f"{name}-token-class",
                metadata={"name": HF_TOKEN_SECRET, "namespace": args.namespace, "labels": stack_labels()},
                opts=child,
            )
            needed.append(self.token.object)
        if args.volume.is_written and args.beside is None:
            needed.append(service_account(f"{name}-account", WRITER_ACCOUNT, args.namespace, child))
        self.mount = self._volume(args, needed) if args.volume.has_volume else None
        self.register_outputs({})

    def _written(self, args: WeightsArgs, objects: _Objects, needed: list[pulumi.Resource]) -> pulumi.Resource:
        """The snapshot of a volume written by a Job."""
        names = release_names(args)
        writer_class = k8s.storage.v1.StorageClass(
            objects.name(names.writer_class),
            metadata=objects.cluster_wide(names.writer_class),
            **writer_class_fields(args),
            opts=objects.options(),
        )
        script = k8s.core.v1.ConfigMap(
            objects.name(names.script),
            metadata=objects.metadata(names.script),
            data={_SCRIPT: Path(__file__).with_name(_SCRIPT).read_text(encoding="utf-8")},
            opts=objects.options(),
        )
        # The class is referenced by name and `depends_on`, here and below: a replaced class (changed
        # labels) must not replace the claim and with it the weights.
        writer = k8s.core.v1.PersistentVolumeClaim(
            objects.name(names.writer),
            metadata=objects.metadata(names.writer),
            spec=claim_spec("ReadWriteOnce", objects.of_cluster(names.writer_class), args.volume.size_gib),
            opts=objects.options(writer_class),
        )
        download = k8s.batch.v1.Job(
            objects.name(names.volume),
            # The next `pulumi up` replaces a failed Job and continues on the same volume.
            metadata=objects.metadata(names.volume, **{"pulumi.com/replaceUnready": "true"}),
            spec=download_job_spec(args, names),
            opts=objects.options(writer, script, *needed, timeout=f"{download_minutes(args.model)}m"),
        )
        # k8s.apiextensions.CustomResource supports only a spec; this kind has top-level fields.
        image_class = pulumi.CustomResource(
            "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotClass",
            objects.name(names.image_class),
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshotClass",
                "metadata": objects.cluster_wide(names.image_class),
                **image_class_fields(args, names),
            },
            # Late, with the image: GKE may validate this kind with a webhook, which has no node on a new cluster.
            objects.options(download),
        )
        return k8s.apiextensions.CustomResource(
            objects.name(f"{names.volume}-image"),
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshot",
            metadata=objects.metadata(names.volume, **_UNTIL_READY),
            spec={
                "volumeSnapshotClassName": objects.of_cluster(names.image_class),
                "source": {"persistentVolumeClaimName": names.writer},
            },
            opts=objects.options(download, image_class, timeout=STORAGE_TIMEOUT),
        )

    def _found(self, args: WeightsArgs, objects: _Objects) -> pulumi.Resource:
        """The snapshot that represents an existing image."""
        names = release_names(args)
        content = k8s.apiextensions.CustomResource(
            objects.name(names.image_content),
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshotContent",
            metadata=objects.cluster_wide(names.image_content),
            spec=image_content_spec(args, names),
            opts=objects.options(),
        )
        return k8s.apiextensions.CustomResource(
            objects.name(f"{names.volume}-image"),
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshot",
            metadata=objects.metadata(names.volume, **_UNTIL_READY),
            spec={"source": {"volumeSnapshotContentName": objects.of_cluster(names.image_content)}},
            opts=objects.options(content, timeout=FIND_TIMEOUT),
        )

    def _volume(self, args: WeightsArgs, needed: list[pulumi.Resource]) -> WeightsMount:
        """The servers' volume and the image it is created from."""
        names, objects = release_names(args), _Objects(self, args)
        image = self._written(args, objects, needed) if args.volume.is_written else self._found(args, objects)
        reader_class = k8s.storage.v1.StorageClass(
            objects.name(names.reader_class),
            metadata=objects.cluster_wide(names.reader_class),
            **reader_class_fields(args),
            opts=objects.options(),
        )
        source: TypedLocalObjectReferenceArgsDict = {
            "api_group": "snapshot.storage.k8s.io",
            "kind": "VolumeSnapshot",
            "name": names.volume,
        }
        # Pulumi waits exactly five minutes for a claim, and a large image takes longer to become a
        # disk. The servers wait for the volume anyway, before any node is requested.
        reader = k8s.core.v1.PersistentVolumeClaim(
            objects.name(names.reader),
            metadata=objects.metadata(names.reader, **{"pulumi.com/skipAwait": "true"}),
            spec=claim_spec("ReadOnlyMany", objects.of_cluster(names.reader_class), args.volume.size_gib, source),
            opts=objects.options(image, reader_class),
        )
        return WeightsMount(
            claim_name=names.reader,
            mount_path=MOUNT_PATH,
            model_path=model_path(args.model),
            depends_on=(reader,),
            written_here=args.volume.is_written,
        )


@dataclass(frozen=True, slots=True)
class _Objects:
    """Metadata and options of a release's objects."""

    parent: Weights
    args: WeightsArgs

    def name(self, name: str) -> str:
        """Name of the program's resource: the object's, with the name of the namespace's first weights in place of `weights`."""
        return f"{(self.args.beside or self.parent).pulumi_resource_name}{name.removeprefix('weights')}"

    def of_cluster(self, name: str) -> str:
        """Name of a cluster-wide object."""
        return f"{self.args.class_prefix}-{name}"

    def metadata(self, name: str, **annotations: str) -> ObjectMetaArgsDict:
        metadata: ObjectMetaArgsDict = {
            "name": name,
            "namespace": self.args.namespace,
            "labels": own_labels(WRITER_APP),
        }
        return {**metadata, "annotations": dict(annotations)} if annotations else metadata

    def cluster_wide(self, name: str) -> ObjectMetaArgsDict:
        return {"name": self.of_cluster(name), "labels": own_labels(WRITER_APP)}

    def options(self, *needs: pulumi.Resource, timeout: str | None = None) -> pulumi.ResourceOptions:
        timeouts = None if timeout is None else pulumi.CustomTimeouts(create=timeout, update=timeout)
        return pulumi.ResourceOptions(parent=self.parent, depends_on=list(needs), custom_timeouts=timeouts)


def _disk_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {"labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items()))} if labels else {}


def writer_class_fields(args: WeightsArgs) -> dict[str, Any]:
    """Storage class of the writer's volume, in any zone with a C4A node; images are at least
    regional, so it may differ from the servers' zones.
    """
    return {
        "provisioner": DRIVER,
        "parameters": {
            "type": "hyperdisk-ml",
            "provisioned-throughput-on-create": f"{writer_throughput_mibps(args.volume.size_gib)}Mi",
            **_disk_labels(args.disk_labels),
        },
        "volume_binding_mode": "WaitForFirstConsumer",
        "allow_volume_expansion": False,
        "reclaim_policy": "Delete",
    }


def reader_class_fields(args: WeightsArgs) -> dict[str, Any]:
    """Storage class of the servers' volume, bound immediately in the servers' zones: no GPU node waits for it,
    and a paused fleet keeps its weights. With several zones, one claim has one disk in each.
    """
    several = {"enable-multi-zone-provisioning": "true"} if len(args.zones) > 1 else {}
    return {
        "provisioner": DRIVER,
        "parameters": {
            "type": "hyperdisk-ml",
            "provisioned-throughput-on-create": f"{args.volume.throughput_mibps}Mi",
            **several,
            **_disk_labels(args.disk_labels),
        },
        "volume_binding_mode": "Immediate",
        "allowed_topologies": [{"match_label_expressions": [{"key": ZONE_KEY, "values": sorted(args.zones)}]}],
        "mount_options": [NO_JOURNAL, f"read_ahead_kb={READ_AHEAD_KB}"],
        "allow_volume_expansion": False,
        "reclaim_policy": "Delete",
    }


def image_class_fields(args: WeightsArgs, names: ReleaseNames) -> dict[str, Any]:
    """Snapshot class that creates disk images. A snapshot allows about six restores an hour, an image any number.

    Retain: the image is the release. It outlives claim, namespace and cluster, and is billed by its bytes. Its
    family identifies the release, its label `fleet` the namespace of the stack that created it.
    """
    return {
        "driver": DRIVER,
        "deletionPolicy": "Retain",
        "parameters": {
            "snapshot-type": "images",
            "image-family": names.release,
            "storage-locations": _region(args.zones[0]),
            **_disk_labels({**args.disk_labels, "fleet": args.class_prefix}),
        },
    }


def image_content_spec(args: WeightsArgs, names: ReleaseNames) -> dict[str, Any]:
    """VolumeSnapshotContent for an existing image. Retain: this program does not own the image.

    Source: GoogleCloudPlatform/ai-on-gke, gke-disk-image-builder, WriteK8sManifests: the same two objects.
    """
    return {
        "deletionPolicy": "Retain",
        "driver": DRIVER,
        "source": {"snapshotHandle": args.volume.image_handle},
        "volumeSnapshotRef": {"kind": "VolumeSnapshot", "name": names.volume, "namespace": args.namespace},
    }


def claim_spec(
    access_mode: str, storage_class: str, size_gib: int, source: TypedLocalObjectReferenceArgsDict | None = None
) -> PersistentVolumeClaimSpecArgsDict:
    """Spec of a claim of this size, empty or created from `source`."""
    spec: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": [access_mode],
        "storage_class_name": storage_class,
        "volume_mode": "Filesystem",
        "resources": {"requests": {"storage": f"{size_gib}Gi"}},
    }
    return spec if source is None else {**spec, "data_source": source}


def download_job_spec(args: WeightsArgs, names: ReleaseNames) -> JobSpecArgsDict:
    """Spec of the Job that downloads the release to the writer's claim."""
    model = args.model
    size = {"cpu": str(WRITER_CPU), "memory": f"{WRITER_MEMORY_GIB}Gi", "ephemeral-storage": "2Gi"}
    token = None if args.hf_token is None else token_volume(secret_files.store_of(args.hf_token))

    def container(name: str, repository: Model | Adapter, target: str) -> ContainerArgsDict:
        environment = {
            "MODEL_ID": repository.id,
            "REVISION": repository.revision,
            "REMOTE": HUB,
            "TARGET": target,
            "HOME": "/tmp",
        }
        if token is not None:
            environment["HF_TOKEN_PATH"] = HF_TOKEN_PATH
        return {
            "name": name,
            "image": args.image,
            "command": ["sh", f"/scripts/{_SCRIPT}"],
            "env": [{"name": key, "value": value} for key, value in environment.items()],
            "resources": {"requests": size, "limits": size},
            "security_context": {
                "allow_privilege_escalation": False,
                "read_only_root_filesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volume_mounts": [
                {"name": "weights", "mount_path": MOUNT_PATH},
                {"name": "script", "mount_path": "/scripts", "read_only": True},
                {"name": "tmp", "mount_path": "/tmp"},
                *([token_mount()] if token is not None else []),
            ],
        }

    # Adapters before the model: a wrong one ends the Job in minutes, not after a download of hours.
    adapters = [
        container(f"adapter-{number}", adapter, f"{MOUNT_PATH}/{adapter.home}")
        for number, adapter in enumerate(model.adapters, 1)
    ]
    download = container("download", model, MOUNT_PATH)
    pod: PodSpecArgsDict = {
        "restart_policy": "Never",
        "service_account_name": WRITER_ACCOUNT,
        "automount_service_account_token": False,
        "enable_service_links": False,
        # C4A supports Hyperdisk ML at a fraction of a GPU machine's price. `arch: arm64` alone would
        # select Autopilot's general Arm nodes, which do not support it.
        "node_selector": {
            "cloud.google.com/compute-class": c4_nodes.COMPUTE_CLASS,
            "cloud.google.com/machine-family": WRITER_FAMILY,
            "kubernetes.io/arch": "arm64",
        },
        "tolerations": [
            {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"},
            c4_nodes.toleration(),
        ],
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": NONROOT,
            "run_as_group": NONROOT,
            "fs_group": NONROOT,
            "fs_group_change_policy": "OnRootMismatch",
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [download],
        "volumes": [
            # Never readOnly here: that would make the disk permanently read-only before it is written.
            {"name": "weights", "persistent_volume_claim": {"claim_name": names.writer}},
            {"name": "script", "config_map": {"name": names.script}},
            {"name": "tmp", "empty_dir": {"size_limit": "1Gi"}},
            *([token] if token is not None else []),
        ],
    }
    if adapters:
        pod["init_containers"] = adapters
    # The script exits with 64 for permanent errors: a missing revision, a volume that is too small.
    failures: list[PodFailurePolicyRuleArgsDict] = [
        {
            "action": "FailJob",
            "on_exit_codes": {"container_name": each["name"], "operator": "In", "values": [64]},
        }
        for each in (*adapters, download)
    ]
    return {
        "backoff_limit": 6,
        "active_deadline_seconds": download_minutes(model) * 60,
        "pod_failure_policy": {
            "rules": [
                *failures,
                # A lost node does not count as a failure.
                {"action": "Ignore", "on_pod_conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"metadata": {"labels": own_labels(WRITER_APP)}, "spec": pod},
    }
