"""Cases of the volume that holds the weights, of its writer and of its readers."""

from __future__ import annotations

from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Edit,
    append,
    drop,
    new,
    of_program,
    of_resource,
    options,
    put,
    sound,
)

_WRITER, _READER_CLASS, _IMAGE_CLASS = "weights-download", "weights-reader-class", "weights-image-class"
_CLAIM = f"{POD}.volumes.3.persistentVolumeClaim"
"""The weights among the server's volumes."""
_ATTACHED_FOR_WRITING = drop(DEPLOYMENT, f"{_CLAIM}.readOnly")
_FLEETING = put(_IMAGE_CLASS, "deletionPolicy", value="Delete")
_ONLY_COPY = drop("weights-reader", "spec.dataSource")
_THEIRS = put(DEPLOYMENT, _CLAIM, value={"claimName": "theirs"})
"""A claim that another stack made."""
_OURS = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/reservation-name": "ours"}


def _throughput(mibps: int) -> Edit:
    return put(_READER_CLASS, "parameters.provisioned-throughput-on-create", value=f"{mibps}Mi")


def _zone(zone: str) -> Edit:
    allowed = [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": [zone]}]}]
    return put(_READER_CLASS, "allowedTopologies", value=allowed)


def _labels(text: str) -> Edit:
    return put(_READER_CLASS, "parameters.labels", value=text)


def _disk(**props: Any) -> Edit:
    """A disk that is made without Kubernetes."""
    inputs = {"type": "hyperdisk-ml", "size": 64.0, "provisionedThroughput": 4800.0, **props}
    return new("by-hand", "gcp:compute/disk:Disk", inputs, beside="network-vpc")


def _image(deletion_policy: str) -> Edit:
    """A disk image that was there before the stack."""
    spec = {
        "deletionPolicy": deletion_policy,
        "driver": "pd.csi.storage.gke.io",
        "source": {"snapshotHandle": "projects/theirs/global/images/weights"},
    }
    content = {"kind": "VolumeSnapshotContent", "metadata": {"name": "image"}, "spec": spec}
    return new("image", "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent", content)


CASES = (
    of_resource(
        "reader-mounts-writable",
        "the claim is attached for writing",
        _ATTACHED_FOR_WRITING,
        stack="spot",
    ),
    of_resource(
        "reader-mounts-writable",
        "one mount of the weights is writable",
        put(DEPLOYMENT, f"{CONTAINER}.volumeMounts.3.readOnly", value=False),
        stack="cud",
    ),
    of_resource(
        "reader-mounts-writable",
        "another pod attaches the readers' claim for writing",
        append(
            "benchmark-job",
            f"{POD}.volumes",
            {
                "name": "tokenizer",
                "persistentVolumeClaim": {"claimName": "weights-qwen3-5-27b-fp8-2e1b213-64gib-4800mibps-b"},
            },
        ),
        stack="spot",
    ),
    of_resource("reader-mounts-writable", "the weights of another stack", _THEIRS),
    sound(
        "reader-mounts-writable",
        "a claim of that name in another namespace",
        put("weights-reader", "metadata.namespace", value="other"),
        _ATTACHED_FOR_WRITING,
        put(DEPLOYMENT, f"{CONTAINER}.args.0", value="some/model"),
    ),
    of_program(
        "throughput-below-readers",
        "twelve readers on the least throughput there is",
        stack="spot",
        settings={"weights": {"throughputMibps": 400}},
    ),
    of_resource(
        "throughput-below-readers",
        "twelve readers on the least, written manually",
        _throughput(400),
        stack="spot",
    ),
    sound("throughput-below-readers", "a team that waits", _throughput(400), stack="spot", loadSeconds=2000),
    of_resource(
        "zone-outside-region",
        "pods in a zone of another region",
        put(DEPLOYMENT, f"{POD}.nodeSelector", value=_OURS | {"topology.kubernetes.io/zone": "us-central1-a"}),
    ),
    sound("zone-outside-region", "another zone of the region", _zone("europe-west4-c")),
    of_resource("weights-unprotected", "production's readers have the only copy", _ONLY_COPY, stack="cud"),
    of_resource("weights-unprotected", "an image that goes with its claim", _FLEETING, stack="cud"),
    of_resource(
        "weights-unprotected", "production by the label of a class", _labels("a=b,environment=production"), _FLEETING
    ),
    of_resource(
        "weights-unprotected",
        "production by a reservation",
        put(DEPLOYMENT, f"{POD}.nodeSelector", value=_OURS),
        _FLEETING,
    ),
    of_resource(
        "weights-unprotected",
        "production by the stack's setting",
        _labels("environment=staging"),
        _ONLY_COPY,
        environment="live",
    ),
    of_resource("weights-unprotected", "a disk", _disk(labels={"env": "prod"})),
    sound("weights-unprotected", "a disk that is kept", _disk(labels={"env": "prod"}, deletionPolicy="ABANDON")),
    sound("weights-unprotected", "a test", _FLEETING),
    of_resource("weights-unprotected", "an external image that is deleted with the stack", _image("Delete")),
    sound("weights-unprotected", "an image that is there already", _image("Retain")),
    sound("weights-unprotected", "a protected claim", _FLEETING, options("weights-reader", protect=True), stack="cud"),
    sound(
        "weights-unprotected",
        "a class that keeps",
        _ONLY_COPY,
        put(_READER_CLASS, "reclaimPolicy", value="Retain"),
        stack="cud",
    ),
)
