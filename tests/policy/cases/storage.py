"""Cases of the volume that holds the weights, of its readers, and of buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.policy.case import (
    BUCKET,
    CONTAINER,
    DEPLOYMENT,
    POD,
    Edit,
    Props,
    Resources,
    Rule,
    append,
    broken,
    change,
    drop,
    find,
    get,
    new,
    options,
    put,
    sound,
)
from tokens import DISK

_READER, _READER_CLASS = "PersistentVolumeClaim/mibps-", "StorageClass/mibps-"
_FLEETING = put("VolumeSnapshotClass", "deletionPolicy", value="Delete")
_ONLY_COPY = drop(_READER, "spec.dataSource")
_OURS = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/reservation-name": "ours"}


def _claim(how: Callable[[Props], None]) -> Edit:
    """Another claim in the server's volume of weights."""

    def edit(props: Props) -> None:
        (volume,) = (one for one in get(props, f"{POD}.volumes") if "persistentVolumeClaim" in one)
        how(volume["persistentVolumeClaim"])

    return change(DEPLOYMENT, edit)


def _writable_mount(props: Props) -> None:
    (volume,) = (one["name"] for one in get(props, f"{POD}.volumes") if "persistentVolumeClaim" in one)
    for mount in get(props, f"{CONTAINER}.volumeMounts"):
        if mount["name"] == volume:
            mount["readOnly"] = False


_ATTACHED_FOR_WRITING = _claim(lambda claim: claim.pop("readOnly"))


def _labels(text: str) -> Edit:
    return put(_READER_CLASS, "parameters.labels", value=text)


def _disk(**props: Any) -> Edit:
    """A disk that is made without Kubernetes."""
    return new("by-hand", DISK, {"type": "hyperdisk-ml", "labels": {"env": "prod"}, **props})


def _image(deletion_policy: str) -> Edit:
    """A disk image that was there before the stack."""
    spec = {"deletionPolicy": deletion_policy, "source": {"snapshotHandle": "projects/theirs/global/images/weights"}}
    content = {"kind": "VolumeSnapshotContent", "metadata": {"name": "image"}, "spec": spec}
    return new("image", "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent", content)


def _second_reader(resources: Resources) -> None:
    """The benchmark attaches the readers' claim for writing."""
    claim = resources[find(resources, _READER)].inputs["metadata"]["name"]
    volume = {"name": "tokenizer", "persistentVolumeClaim": {"claimName": claim}}
    append("Job/benchmark", f"{POD}.volumes", volume)(resources)


_WRITABLE = Rule("reader-mounts-writable")
_WEIGHTS = Rule("weights-unprotected")

CASES = (
    _WRITABLE.broken("the claim is attached for writing", _ATTACHED_FOR_WRITING, stack="spot"),
    _WRITABLE.broken("a mount is writable", change(DEPLOYMENT, _writable_mount), stack="cud"),
    _WRITABLE.broken("another pod attaches the claim for writing", _second_reader, stack="spot"),
    _WRITABLE.broken(
        "the weights of another stack", _claim(lambda claim: claim.update(claimName="theirs", readOnly=False))
    ),
    _WRITABLE.sound(
        "a claim of that name in another namespace",
        put(_READER, "metadata.namespace", value="other"),
        _ATTACHED_FOR_WRITING,
        put(DEPLOYMENT, f"{CONTAINER}.args.0", value="some/model"),
    ),
    _WEIGHTS.broken("production's readers have the only copy", _ONLY_COPY, stack="cud"),
    _WEIGHTS.broken("an image that goes with its claim", _FLEETING, stack="cud"),
    _WEIGHTS.broken("production by a class's label", _labels("a=b,environment=production"), _FLEETING),
    _WEIGHTS.broken("production by a reservation", put(DEPLOYMENT, f"{POD}.nodeSelector", value=_OURS), _FLEETING),
    _WEIGHTS.broken(
        "production by the stack's setting", _labels("environment=staging"), _ONLY_COPY, environment="live"
    ),
    _WEIGHTS.broken("a disk", _disk()),
    _WEIGHTS.broken("an external image that is deleted with the stack", _image("Delete")),
    _WEIGHTS.sound("a disk that is kept", _disk(deletionPolicy="ABANDON")),
    _WEIGHTS.sound("a test", _FLEETING),
    _WEIGHTS.sound("an image that is there already", _image("Retain")),
    _WEIGHTS.sound("a protected claim", _FLEETING, options(_READER, protect=True), stack="cud"),
    _WEIGHTS.sound("a class that keeps", _ONLY_COPY, put(_READER_CLASS, "reclaimPolicy", value="Retain"), stack="cud"),
    broken("bucket-loses-results", "they go with their bucket", put(BUCKET, "forceDestroy", value=True)),
    broken("bucket-loses-results", "gone whatever they are", drop(BUCKET, "lifecycleRules.0.condition")),
    broken("bucket-loses-results", "gone in a day", put(BUCKET, "lifecycleRules.0.condition.age", value=1)),
    sound(
        "bucket-loses-results",
        "a bucket of what is made again",
        put(BUCKET, "forceDestroy", value=True),
        put(BUCKET, "labels.scratch", value="true"),
    ),
    sound("bucket-loses-results", "gone in a month", put(BUCKET, "lifecycleRules.0.condition.age", value=30)),
)
