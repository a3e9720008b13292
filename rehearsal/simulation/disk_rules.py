"""The rules of making a disk of Hyperdisk ML or its neighbours, and the form that every refusal has.

Rules only, no Kubernetes and no clock. Limits come from planner/hyperdisk.py; the driver's checks and words from
kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pkg/gce-pd-csi-driver/controller.go. Where nobody has published
Google's own words, the text says "(simulated wording)".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from planner.hyperdisk import check_volume

AccessMode = Literal["READ_WRITE_SINGLE", "READ_ONLY_MANY"]
"""Of a disk, as Compute Engine spells it. READ_ONLY_MANY is for good."""

HYPERDISK_ML: Final = "hyperdisk-ml"
PARAMETERS: Final = frozenset(
    {
        "type",
        "replication-type",
        "disk-encryption-kms-key",
        "labels",
        "resource-tags",
        "provisioned-iops-on-create",
        "provisioned-throughput-on-create",
        "storage-pools",
        "use-allowed-disk-topology",
        "enable-multi-zone-provisioning",
        "enable-confidential-storage",
        "data-cache-size",
        "data-cache-mode",
        "access-mode",
        "hyperdisk-type",
        "pd-type",
        "disk-type-preference",
    }
)
"""Of a StorageClass. Source: the driver, pkg/parameters/constants.go."""
RESTORES_PER_HOUR: Final = 6
"""Disks that can be made of one snapshot in an hour; an image has no such limit. Source: KubeVirt's Google Cloud notes,
quoting Compute Engine."""
SIMULATED: Final = "(simulated wording)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTrouble:
    """Why a claim is not bound, a volume not attached, or an image not taken."""

    code: str
    """The rule, in kebab case."""
    event: Literal["ProvisioningFailed", "FailedAttachVolume", "SnapshotContentCreationFailed"]
    """Reason of the event that shows it."""
    shown: str
    """What the event says."""
    message: str
    """The same in plain words, by the rehearsal."""
    fix: str
    """What a person can do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a new disk is filled from."""

    name: str
    kind: Literal["images", "snapshots"]
    size_gib: int
    restores_in_last_hour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRequest:
    """What a claim and its class ask for."""

    size_gib: int
    access_modes: tuple[str, ...]
    """As the claim spells them: ReadWriteOnce, ReadOnlyMany ..."""
    zones: tuple[str, ...]
    """Where it may be: of the class, of the first consumer's node, or of the nodes there are."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the class."""
    throughput_mibps: int | None = None
    """None when the class leaves it to Google."""
    source: Source | None = None

    @property
    def type(self) -> str:
        """Disk type; the driver's default where the class names none."""
        return self.parameters.get("type", "pd-standard")

    @property
    def is_read_only(self) -> bool:
        """Whether every access mode asked for only reads."""
        return set(self.access_modes) == {"ReadOnlyMany"}

    @property
    def multi_zone(self) -> bool:
        """One volume that stands for one disk in each zone."""
        return self.parameters.get("enable-multi-zone-provisioning", "").lower() == "true"

    @property
    def access_mode(self) -> AccessMode:
        """The disk's own, when it is made. An empty one is made writable even for a read-only claim."""
        return "READ_ONLY_MANY" if self.is_read_only and self.source is not None else "READ_WRITE_SINGLE"


VolumeRule = Callable[[VolumeRequest], DiskTrouble | None]


def refuse_volume(asked: VolumeRequest) -> DiskTrouble | None:
    """The first rule that this request breaks; None when the disk can be made."""
    return next((trouble for rule in VOLUME_RULES if (trouble := rule(asked)) is not None), None)


def _cannot_make(code: str, text: str, message: str, fix: str, *, grpc: str = "InvalidArgument") -> DiskTrouble:
    shown = f"rpc error: code = {grpc} desc = {text}"
    return DiskTrouble(code=code, event="ProvisioningFailed", shown=shown, message=message, fix=fix)


def _known_parameters(asked: VolumeRequest) -> DiskTrouble | None:
    unknown = sorted(key for key in asked.parameters if key.lower() not in PARAMETERS)
    if not unknown:
        return None
    near = " The singular is right: use-allowed-disk-topology." if "use-allowed-disk-topologies" in unknown else ""
    return _cannot_make(
        "unknown-parameter",
        f'failed to extract parameters: parameters contains invalid option "{unknown[0]}"',
        f"The class has a parameter the driver does not know: {', '.join(unknown)}.",
        f"Take it out of the StorageClass, which has to be replaced for that.{near}",
    )


def _known_access(asked: VolumeRequest) -> DiskTrouble | None:
    if asked.type == HYPERDISK_ML and "ReadWriteMany" in asked.access_modes:
        return _cannot_make(
            "no-many-writers",
            f"{SIMULATED} access mode READ_WRITE_MANY is not supported for hyperdisk-ml",
            "Hyperdisk ML is written by one node and then read by many; nothing in between.",
            "Write with ReadWriteOnce, take an image, mount a ReadOnlyMany claim made from it.",
        )
    if asked.is_read_only and asked.source is None and asked.type != HYPERDISK_ML:
        return _cannot_make(
            "read-only-without-source",
            "VolumeContentSource must be provided when AccessMode is set to read only",
            "A read-only claim without a source would be an empty disk that nobody can fill.",
            "Name a VolumeSnapshot as dataSource.",
        )
    return None


def _no_iops(asked: VolumeRequest) -> DiskTrouble | None:
    if asked.type != HYPERDISK_ML or "provisioned-iops-on-create" not in asked.parameters:
        return None
    return _cannot_make(
        "iops-not-settable",
        f"{SIMULATED} provisioned IOPS cannot be set for hyperdisk-ml",
        "The IOPS of a Hyperdisk ML volume follow from its throughput, 16 for each MiB/s.",
        "Take provisioned-iops-on-create out of the StorageClass.",
    )


def _size_and_throughput(asked: VolumeRequest) -> DiskTrouble | None:
    if asked.type != HYPERDISK_ML or asked.throughput_mibps is None:
        return None
    findings = check_volume(size_gib=asked.size_gib, throughput_mibps=asked.throughput_mibps)
    if not findings:
        return None
    first = findings[0]
    return _cannot_make(
        "size" if first.field == "size_gib" else "throughput",
        f"{SIMULATED} CreateVolume failed to create single zonal disk: googleapi: Error 400: {first.message}, invalid",
        f"{first.message[0].upper()}{first.message[1:]}; the class and claim ask for {first.value:g}.",
        f"{first.remedy[0].upper()}{first.remedy[1:]}.",
    )


def _source_fits(asked: VolumeRequest) -> DiskTrouble | None:
    source = asked.source
    if source is None:
        return None
    if asked.size_gib < source.size_gib:
        return _cannot_make(
            "smaller-than-source",
            f"{SIMULATED} requested disk size {asked.size_gib} GB is smaller than the {source.kind[:-1]} size "
            f"{source.size_gib} GB",
            f"The claim asks for {asked.size_gib} GiB and {source.name} holds {source.size_gib} GiB.",
            f"Ask for {source.size_gib} GiB or more.",
        )
    if source.kind == "snapshots" and source.restores_in_last_hour >= RESTORES_PER_HOUR:
        return _cannot_make(
            "snapshot-restores",
            f"{SIMULATED} too many disks were created from snapshot {source.name} in the last hour",
            f"A snapshot gives about {RESTORES_PER_HOUR} disks an hour, and this one has given them.",
            "Take images instead (snapshot-type: images): they have no such limit.",
            grpc="ResourceExhausted",
        )
    return None


def _zones_make_sense(asked: VolumeRequest) -> DiskTrouble | None:
    if not asked.zones:
        return _cannot_make(
            "no-zone",
            "error generating accessibility requirements: no available topology found",
            "The class binds at once, names no zone, and there is no node yet whose zone could be taken.",
            "Give the StorageClass allowedTopologies with the zone of the servers.",
            grpc="Internal",
        )
    if not asked.multi_zone:
        return None
    key = '"enable-multi-zone-provisioning"'
    if asked.type != HYPERDISK_ML:
        return _cannot_make(
            "multi-zone-type",
            f"CreateVolume failed to validate multi-zone provisioning request: {key} parameter with unsupported disk "
            f"type: {asked.type}",
            f"One volume for several zones exists for hyperdisk-ml only, not for {asked.type}.",
            "Use type: hyperdisk-ml, or one claim for each zone.",
        )
    if not asked.is_read_only and asked.source is not None:
        return _cannot_make(
            "multi-zone-writable",
            f"CreateVolume failed to validate multi-zone provisioning request: {key} parameter does not support "
            "specifying volume content source in readwrite mode",
            "One volume for several zones can be read only: each zone has its own disk, and nothing keeps them equal.",
            "Ask for ReadOnlyMany.",
        )
    return None


VOLUME_RULES: Final[tuple[VolumeRule, ...]] = (
    _known_parameters,
    _known_access,
    _zones_make_sense,
    _no_iops,
    _size_and_throughput,
    _source_fits,
)
