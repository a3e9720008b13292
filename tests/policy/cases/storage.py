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
    result,
    set_at,
    sound,
)

_WRITER, _READER_CLASS, _IMAGE_CLASS = "weights-download", "weights-reader-class", "weights-image-class"
_CLAIM = f"{POD}.volumes.3.persistentVolumeClaim"
"""The weights among the server's volumes."""
_ATTACHED_FOR_WRITING = drop(DEPLOYMENT, f"{_CLAIM}.readOnly")
_SWITCHED = put(_WRITER, f"{POD}.volumes.0.persistentVolumeClaim.readOnly", value=True)
_FLEETING = put(_IMAGE_CLASS, "deletionPolicy", value="Delete")
_ONLY_COPY = drop("weights-reader", "spec.dataSource")
_THEIRS = put(DEPLOYMENT, _CLAIM, value={"claimName": "theirs"})
"""A claim that another stack made."""
_OURS = {"cloud.google.com/gke-accelerator": "nvidia-b200", "cloud.google.com/reservation-name": "ours"}


def _throughput(mibps: int) -> Edit:
    return put(_READER_CLASS, "parameters.provisioned-throughput-on-create", value=f"{mibps}Mi")


def _size(text: str) -> Edit:
    return put("weights-reader", "spec.resources.requests.storage", value=text)


def _mode(name: str) -> Edit:
    return put("weights-reader", "spec.accessModes", value=[name])


def _replicas(count: int) -> Edit:
    return put(DEPLOYMENT, "spec.replicas", value=count)


def _labels(text: str) -> Edit:
    return put(_READER_CLASS, "parameters.labels", value=text)


def _disk(**props: Any) -> Edit:
    """A disk that is made without Kubernetes."""
    inputs = {"type": "hyperdisk-ml", "size": 64.0, "provisionedThroughput": 4800.0, **props}
    return new("by-hand", "gcp:compute/disk:Disk", inputs, beside="platform-network-vpc")


def _image(deletion_policy: str) -> Edit:
    """A disk image that was there before the stack."""
    spec = {
        "deletionPolicy": deletion_policy,
        "driver": "pd.csi.storage.gke.io",
        "source": {"snapshotHandle": "projects/theirs/global/images/weights"},
    }
    content = {"kind": "VolumeSnapshotContent", "metadata": {"name": "image"}, "spec": spec}
    return new("image", "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent", content)


def _machine(**selectors: str) -> Edit:
    return put(_WRITER, f"{POD}.nodeSelector", value={key.replace("_", "-"): value for key, value in selectors.items()})


CASES = (
    of_program(
        "reader-mounts-writable",
        "the server's volume mount leaves out readOnly",
        result("workloads.weights.weights.WeightsMount.volume_mount", lambda mount: mount.pop("read_only") and None),
        stack="guest",
    ),
    of_resource(
        "reader-mounts-writable",
        "the claim is attached for writing",
        _ATTACHED_FOR_WRITING,
        stack="spot",
        says="$391.28 to $517.67 an hour",
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
        "a cache beside the weights",
        _THEIRS,
        put(DEPLOYMENT, f"{CONTAINER}.volumeMounts.3.mountPath", value="/cache"),
    ),
    sound(
        "reader-mounts-writable",
        "a claim of that name in another namespace",
        put("weights-reader", "metadata.namespace", value="other"),
        _ATTACHED_FOR_WRITING,
        put(DEPLOYMENT, f"{CONTAINER}.args.0", value="some/model"),
    ),
    of_program(
        "writer-mounted-read-only",
        "the download Job attaches its empty volume read-only",
        result(
            "workloads.weights.weights.download_job_spec",
            lambda spec: set_at(spec, "template.spec.volumes.0.persistent_volume_claim.read_only", value=True),
        ),
        stack="guest",
    ),
    of_resource("writer-mounted-read-only", "the writer's claim is attached read-only", _SWITCHED, stack="gateway"),
    of_resource(
        "writer-mounted-read-only",
        "every mount is read-only",
        put(_WRITER, f"{CONTAINER}.volumeMounts.0.readOnly", value=True),
        says="spec.template.spec.containers[0].volumeMounts[0]",
    ),
    sound(
        "writer-mounted-read-only",
        "a disk of another kind",
        _SWITCHED,
        put("weights-writer-class", "parameters.type", value="hyperdisk-balanced"),
    ),
    of_program(
        "hyperdisk-limit",
        "a volume of 64 GiB with more throughput than its size allows",
        settings={"weights": {"throughputMibps": 200_000}},
        stack="guest",
    ),
    of_resource(
        "hyperdisk-limit", "a claim smaller than the smallest volume", _size("2Gi"), says=("2 GiB", "4 to 65536 GiB")
    ),
    of_resource(
        "hyperdisk-limit",
        "IOPS asked for beside the throughput",
        put(_READER_CLASS, "parameters.provisioned-iops-on-create", value="16000"),
    ),
    of_resource("hyperdisk-limit", "less than the least throughput", _throughput(300), says="400 MiB/s"),
    of_resource("hyperdisk-limit", "more than the most throughput", _throughput(200_000), says="102400 MiB/s"),
    of_resource("hyperdisk-limit", "a mode it does not have", _mode("ReadWriteMany"), says="ReadWriteMany"),
    of_resource("hyperdisk-limit", "25 readers", _throughput(480), _replicas(25), says="500 MiB/s for 25"),
    of_resource(
        "hyperdisk-limit", "31 readers of 32 TiB", _throughput(400_000), _size("32Ti"), _replicas(31), says="30 nodes"
    ),
    of_resource("hyperdisk-limit", "a disk of its own", _disk(provisionedThroughput=100.0), says="400 MiB/s"),
    sound("hyperdisk-limit", "a disk of another kind", _disk(type="pd-ssd", provisionedThroughput=100.0)),
    of_program(
        "throughput-below-readers",
        "twelve readers on the least throughput there is",
        stack="spot",
        settings={"weights": {"throughputMibps": 400}},
    ),
    of_resource(
        "throughput-below-readers", "a class made for one reader, and twelve of them", _throughput(1200), stack="cud"
    ),
    of_resource(
        "throughput-below-readers",
        "twelve readers on the least, written manually",
        _throughput(400),
        stack="spot",
        says=("1,966 s", "300 s", "provisioned-throughput-on-create: 2700Mi", "$391.28 to"),
    ),
    sound("throughput-below-readers", "a team that waits", _throughput(400), stack="spot", loadSeconds=2000),
    of_program(
        "machine-cannot-attach-disk",
        "the writer on a machine family without Hyperdisk ML",
        settings={"weights": {"writer": {"machineFamily": "n4"}}},
        stack="guest",
    ),
    of_resource(
        "machine-cannot-attach-disk",
        "the writer leaves its machine to Autopilot",
        drop(_WRITER, f"{POD}.nodeSelector"),
        stack="gateway",
    ),
    of_resource(
        "machine-cannot-attach-disk",
        "readers of a Persistent Disk",
        put(_READER_CLASS, "parameters.type", value="pd-ssd"),
        stack="spot",
    ),
    of_resource(
        "machine-cannot-attach-disk",
        "a family by its selector",
        put(_WRITER, f"{POD}.nodeSelector", "cloud.google.com/machine-family", value="n2"),
        says="N2",
    ),
    of_resource(
        "machine-cannot-attach-disk",
        "a family by the machine type",
        put(_WRITER, f"{POD}.nodeSelector", value={"node.kubernetes.io/instance-type": "c4-standard-16"}),
        says="C4",
    ),
    of_resource(
        "machine-cannot-attach-disk",
        "the cluster's default class",
        drop("weights-reader", "spec.storageClassName"),
        says="A4",
    ),
    sound("machine-cannot-attach-disk", "no cluster to be seen", drop(_WRITER, f"{POD}.nodeSelector"), stack="guest"),
    of_program(
        "weights-unprotected",
        "production's image is deleted with the stack",
        result("workloads.weights.weights.image_class_fields", lambda fields: fields.update(deletionPolicy="Delete")),
        stack="cud",
    ),
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
        says="ours",
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
    of_program(
        "reader-replays-journal",
        "the readers' class leaves out noload",
        result("workloads.weights.weights.reader_class_fields", lambda fields: fields["mount_options"].pop(0) and None),
        stack="guest",
    ),
    of_resource("reader-replays-journal", "no mount options", drop(_READER_CLASS, "mountOptions"), stack="spot"),
    sound("reader-replays-journal", "a volume that begins empty", _ONLY_COPY, drop(_READER_CLASS, "mountOptions")),
    of_program(
        "weights-copied-by-snapshot",
        "readers restored from a snapshot",
        result(
            "workloads.weights.weights.image_class_fields",
            lambda fields: fields["parameters"].pop("snapshot-type") and None,
        ),
    ),
    of_resource(
        "weights-copied-by-snapshot",
        "the image class takes snapshots",
        put(_IMAGE_CLASS, "parameters.snapshot-type", value="snapshots"),
        stack="spot",
    ),
)
