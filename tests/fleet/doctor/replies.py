"""Google Cloud's answers about a project that has everything the spot stack of these tests needs, in the forms that gcloud prints.

Forms: Cloud Quotas API v1beta, QuotaInfo; Compute API v1, Region, MachineType, AcceleratorType, Reservation; Service Usage, Cloud
Billing, Artifact Registry and Resource Manager v1. Values of quotas as published of real projects in 2026.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

REGIONS = ["europe-west4", "us-central1"]
_COMPUTE = "https://www.googleapis.com/compute/v1/projects/fleet-tests"


def quota(quota_id: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A QuotaInfo."""
    return {
        "name": f"projects/123456789/locations/global/services/compute.googleapis.com/quotaInfos/{quota_id}",
        "quotaId": quota_id,
        "service": "compute.googleapis.com",
        "containerType": "PROJECT",
        "metricUnit": "1",
        "isPrecise": True,
        "dimensionsInfos": list(rows),
        **more,
    }


def limit(value: int | None, *places: str, **dimensions: str) -> dict[str, Any]:
    """A row of one: Google writes 64-bit numbers as text, leaves zeros out, and `dimensions` where there are none."""
    details = {} if value is None else {"value": str(value)}
    row: dict[str, Any] = {"details": details, "applicableLocations": list(places) or REGIONS}
    return row | ({"dimensions": dimensions} if dimensions else {})


def zoned(kind: str, name: str, zone: str) -> dict[str, Any]:
    """A machine or accelerator type of a zone."""
    return {"name": name, "zone": f"{_COMPUTE}/zones/{zone}", "selfLink": f"{_COMPUTE}/zones/{zone}/{kind}/{name}"}


def reservation(**changed: Any) -> dict[str, Any]:
    """A reservation as its owner sees it."""
    return {
        "name": "b200-production",
        "zone": f"{_COMPUTE}/zones/europe-west4-b",
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "12",
            "inUseCount": "0",
            "instanceProperties": {"machineType": "a4-highgpu-8g"},
        },
        "shareSettings": {"shareType": "LOCAL"},
    } | changed


def advice(zone: str = "europe-west4-b") -> dict[str, Any]:
    """Both answers of Compute Engine's Advice API about Spot machines; compute_advice.json has their types."""
    days = [
        {"interval": {"startTime": f"2026-11-{day}T08:00:00Z", "endTime": f"2026-11-{day + 1}T08:00:00Z"}}
        for day in (27, 28)
    ]
    money = {"currencyCode": "USD", "units": "34", "nanos": 70_000_000}
    return {
        "zone": zone,
        "nodes": 12,
        "capacity": {
            "recommendations": [
                {
                    "scores": {"obtainability": 0.8, "estimatedUptime": "3600s"},
                    "shards": [
                        {"instanceCount": 12, "machineType": "a4-highgpu-8g", "provisioningModel": "SPOT", "zone": zone}
                    ],
                }
            ]
        },
        "history": {
            "machineType": "a4-highgpu-8g",
            "location": f"{_COMPUTE}/zones/{zone}",
            "preemptionHistory": [{**day, "preemptionRate": rate} for day, rate in zip(days, (0.0, 0.5), strict=True)],
            "priceHistory": [{**days[1], "listPrice": money}, {**days[0], "listPrice": {**money, "units": "39"}}],
        },
    }


QUOTA_IDS = {
    "PREEMPTIBLE_NVIDIA_B200_GPUS": "PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region",
    "GPUS_ALL_REGIONS": "GPUS-ALL-REGIONS-per-project",
}


def answers() -> dict[str, Any]:
    """By the words of the question."""
    vm_family = quota(
        "CPUS-PER-VM-FAMILY-per-project-region",
        limit(24, "europe-west4", region="europe-west4", vm_family="C4"),
        limit(64, "europe-west4", region="europe-west4", vm_family="C4A"),
        limit(8, "us-central1", region="us-central1", vm_family="C4A"),
    )
    describe = "beta quotas info describe"
    return {
        f"{describe} PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region": quota(
            "PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region", limit(96)
        ),
        f"{describe} GPUS-ALL-REGIONS-per-project": quota("GPUS-ALL-REGIONS-per-project", limit(96, "global")),
        f"{describe} CPUS-ALL-REGIONS-per-project": quota("CPUS-ALL-REGIONS-per-project", limit(64, "global")),
        f"{describe} CPUS-per-project-region": quota("CPUS-per-project-region", limit(72)),
        f"{describe} CPUS-PER-VM-FAMILY-per-project-region": vm_family,
        f"{describe} HDML-TOTAL-GB-per-project-region": quota("HDML-TOTAL-GB-per-project-region", limit(10_240)),
        f"{describe} HDML-TOTAL-THROUGHPUT-per-project-region": quota(
            "HDML-TOTAL-THROUGHPUT-per-project-region", limit(30_720)
        ),
        f"{describe} HDB-TOTAL-GB-per-project-region": quota("HDB-TOTAL-GB-per-project-region", limit(8_192)),
        f"{describe} SSD-TOTAL-GB-per-project-region": quota("SSD-TOTAL-GB-per-project-region", limit(500)),
        # gcloud leaves out the name of a metric that its own version does not know.
        "compute regions describe europe-west4": {
            "name": "europe-west4",
            "quotas": [
                {"limit": 8_192.0, "metric": "HDB_TOTAL_GB", "usage": 500.0},
                {"limit": 96.0, "usage": 0.0},
            ],
        },
        "compute project-info describe": {
            "name": "fleet-tests",
            "quotas": [{"limit": 96.0, "metric": "GPUS_ALL_REGIONS", "usage": 8.0}],
        },
        "compute machine-types list": [
            zoned("machineTypes", name, "europe-west4-b")
            for name in ("a4-highgpu-8g", "c4a-standard-8", "c4-standard-16")
        ],
        "compute accelerator-types list": [
            zoned("acceleratorTypes", "nvidia-b200", zone) for zone in ("europe-west4-b", "us-central1-b")
        ],
        "compute disk-types list": [zoned("diskTypes", "hyperdisk-ml", f"europe-west4-{letter}") for letter in "ab"],
        "container get-server-config": {
            "defaultClusterVersion": "1.35.3-gke.1200000",
            "channels": [
                {
                    "channel": "RAPID",
                    "defaultVersion": "1.36.1-gke.1400000",
                    "validVersions": ["1.37.0-gke.3100000", "1.36.4-gke.1247000", "1.36.1-gke.1400000"],
                },
                {"channel": "REGULAR", "defaultVersion": "1.35.3-gke.1200000", "validVersions": ["1.35.3-gke.1200000"]},
            ],
        },
        "services list": [
            {"config": {"name": f"{api}.googleapis.com"}, "state": "ENABLED"}
            for api in [
                "artifactregistry",
                "cloudresourcemanager",
                "compute",
                "container",
                "containerfilesystem",
                "iam",
                "logging",
                "monitoring",
                "storage",
                "serviceusage",
            ]
        ],
        "billing projects describe fleet-tests": {
            "billingAccountName": "billingAccounts/01ABCD-234567-89EFAB",
            "billingEnabled": True,
            "name": "projects/fleet-tests/billingInfo",
            "projectId": "fleet-tests",
        },
        "artifacts repositories describe test-docker-hub": {
            "name": "projects/fleet-tests/locations/europe-west4/repositories/test-docker-hub",
            "mode": "REMOTE_REPOSITORY",
            "format": "DOCKER",
            "remoteRepositoryConfig": {"dockerRepository": {"publicRepository": "DOCKER_HUB"}},
        },
        "compute reservations describe b200-production": reservation(),
    }


_FAKE = """\
#!/bin/sh
folder="$(dirname "$0")/replies"
for word in "$@"; do case "$word" in --*) ;; *) name="$name${name:+ }$word" ;; esac; done
echo "$name | $CLOUDSDK_CORE_DISABLE_PROMPTS $CLOUDSDK_CORE_SHOULD_PROMPT_TO_ENABLE_API | $*" >> "$folder/asked"
if [ -f "$folder/$name.sh" ]; then . "$folder/$name.sh"; fi
if [ -f "$folder/$name" ]; then exec cat "$folder/$name"; fi
echo "ERROR: (gcloud.x) NOT_FOUND: $name not found" >&2
exit 1
"""


class FakeGcloud:
    """A `gcloud` on PATH that replies from files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._replies = folder / "replies"
        self._replies.mkdir(parents=True)
        program = folder / "gcloud"
        program.write_text(_FAKE)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for name, answer in answers().items():
            self.says(name, json.dumps(answer))
        self.says("auth application-default print-access-token", "ya29.a-token-that-is-never-shown-anywhere")

    def says(self, name: str, text: str) -> None:
        """Print this text to that question."""
        (self._replies / name).write_text(text)

    def does(self, name: str, script: str) -> None:
        """Run these shell commands at that question."""
        (self._replies / f"{name}.sh").write_text(script)

    def fails(self, name: str, said: str) -> None:
        """End with code 1 and these words."""
        self.does(name, f"echo '{said}' >&2; exit 1")

    @property
    def path(self) -> str:
        """PATH with it in front of what its script needs."""
        return f"{self.folder}:/usr/bin:/bin"

    @property
    def asked(self) -> list[str]:
        """The questions so far, with what gcloud was told in its environment."""
        return (self._replies / "asked").read_text().splitlines()
