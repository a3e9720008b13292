"""Mutants of the volume that holds the weights, of its writer and of its readers."""

from __future__ import annotations

from tests.policy.mutant import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    append,
    drop,
    of_program,
    of_resource,
    put,
    result,
    set_at,
)

_WRITER, _READER_CLASS, _IMAGE_CLASS = "weights-download", "weights-reader-class", "weights-image-class"

MUTANTS = (
    of_program(
        "reader-mounts-writable",
        "the server's volume mount leaves out readOnly",
        result("workloads.weights.weights.WeightsMount.volume_mount", lambda mount: mount.pop("read_only") and None),
        stack="guest",
    ),
    of_resource(
        "reader-mounts-writable",
        "the claim is attached for writing",
        drop(DEPLOYMENT, f"{POD}.volumes.3.persistentVolumeClaim.readOnly"),
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
    of_program(
        "writer-mounted-read-only",
        "the download Job attaches its empty volume read-only",
        result(
            "workloads.weights.weights.download_job_spec",
            lambda spec: set_at(spec, "template.spec.volumes.0.persistent_volume_claim.read_only", value=True),
        ),
        stack="guest",
    ),
    of_resource(
        "writer-mounted-read-only",
        "the writer's claim is attached read-only",
        put(_WRITER, f"{POD}.volumes.0.persistentVolumeClaim.readOnly", value=True),
        stack="gateway",
    ),
    of_program(
        "hyperdisk-limit",
        "a volume of 64 GiB with more throughput than its size allows",
        settings={"weights": {"throughputMibps": 200_000}},
        stack="guest",
    ),
    of_resource(
        "hyperdisk-limit",
        "a claim smaller than the smallest volume",
        put("weights-reader", "spec.resources.requests.storage", value="2Gi"),
    ),
    of_resource(
        "hyperdisk-limit",
        "IOPS asked for beside the throughput",
        put(_READER_CLASS, "parameters.provisioned-iops-on-create", value="16000"),
    ),
    of_program(
        "throughput-below-readers",
        "twelve readers on the least throughput there is",
        stack="spot",
        settings={"weights": {"throughputMibps": 400}},
    ),
    of_resource(
        "throughput-below-readers",
        "a class made for one reader, and twelve of them",
        put(_READER_CLASS, "parameters.provisioned-throughput-on-create", value="1200Mi"),
        stack="cud",
    ),
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
    of_program(
        "weights-unprotected",
        "production's image is deleted with the stack",
        result("workloads.weights.weights.image_class_fields", lambda fields: fields.update(deletionPolicy="Delete")),
        stack="cud",
    ),
    of_resource(
        "weights-unprotected",
        "production's readers have the only copy",
        drop("weights-reader", "spec.dataSource"),
        stack="cud",
    ),
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
