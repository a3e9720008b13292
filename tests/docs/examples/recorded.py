"""The programs of `examples/` as the recorder sees them: each with the config of its own `Pulumi.example.yaml`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import yaml

from fleet.preview.record.recorder import Mode, Recording, record
from tests import inventory

EXAMPLES = inventory.ROOT / "docs" / "examples"
INVENTORIES = Path(__file__).resolve().parent / "inventories"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/__main__.py"))
STACK = "example"
_POD = "spec.template.spec"
_FROM_ARGUMENTS = {
    "gcp:billing/budget:Budget": ("amount", "thresholdRules"),
    "gcp:compute/subnetwork:Subnetwork": ("ipCidrRange", "purpose", "secondaryIpRanges"),
    "gcp:container/cluster:Cluster": ("name", "location", "releaseChannel", "controlPlaneEndpointsConfig"),
    "gcp:projects/service:Service": ("service",),
    "gcp:secretmanager/secretIamMember:SecretIamMember": ("secretId",),
    "gcp:storage/bucket:Bucket": ("lifecycleRules",),
    "gcp:storage/bucketIAMMember:BucketIAMMember": ("role", "member"),
    "kubernetes:apps/v1:Deployment": (
        "metadata.annotations",
        "spec.replicas",
        f"{_POD}.nodeSelector",
        f"{_POD}.volumes",
        f"{_POD}.containers[0].image",
        f"{_POD}.containers[0].args",
    ),
    "kubernetes:batch/v1:Job": (f"{_POD}.containers[0].image",),
    "kubernetes:core/v1:Namespace": ("metadata.name",),
    "kubernetes:core/v1:PersistentVolumeClaim": ("metadata.name", "spec"),
    "kubernetes:core/v1:ResourceQuota": ("spec",),
    "kubernetes:core/v1:Service": ("metadata.name",),
    "kubernetes:snapshot.storage.k8s.io/v1:VolumeSnapshotContent": ("spec",),
    "kubernetes:storage.k8s.io/v1:StorageClass": ("parameters", "allowedTopologies"),
}
MATTERS = {type_: _FROM_ARGUMENTS.get(type_, ()) for type_ in inventory.MATTERS}
"""What follows from an example's own arguments; the rest of each object is in the stacks' inventories."""


@cache
def recorded(name: str, mode: Mode = "known") -> Recording:
    """One example, recorded with no stack file of this repository in sight."""
    folder = EXAMPLES / name
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    return record(folder, project=project, stack=STACK, config=configuration(name), mode=mode)


def configuration(name: str) -> dict[str, str]:
    """The config of the example's stack file, as the engine passes it."""
    given = yaml.safe_load((EXAMPLES / name / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8"))["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}


def example_inventory(name: str) -> str:
    """The inventory of one example, as the text of its reviewed file."""
    return inventory.reviewed_text(f"example {name}", inventory.inventory(recorded(name), MATTERS))
