"""Google's APIs about a project that has everything the spot stack of these tests needs, below the real session.

Forms: Cloud Quotas API v1, QuotaInfo; Compute API v1, MachineType, Reservation, Subnetwork, Router, Address; Service Usage, Resource
Manager and Certificate Manager v1. Values of quotas as published of real projects in 2026. compute_advice.json: the two methods of
the Advice API and their types, of the discovery document of Compute Engine API v1 in google-api-python-client 2.202.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from requests.adapters import BaseAdapter

from facts.finding import Finding
from fleet.clients.google_api import VARIABLE
from fleet.doctor import google as google_module
from fleet.doctor.google import Google
from fleet.doctor.live import findings
from settings.stack import Settings

PROJECT = "compute.googleapis.com/compute/v1/projects/fleet-tests"
HOST = "compute.googleapis.com/compute/v1/projects/host-project"
QUOTAS = (
    "cloudquotas.googleapis.com/v1/projects/fleet-tests/locations/global/services/compute.googleapis.com/quotaInfos"
)
ADVICE = f"{PROJECT}/regions/europe-west4/advice"
B200 = "PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region"
TOKEN = "ya29.a-token-that-is-never-shown-anywhere"


def limit(value: int | None, *places: str, **dimensions: str) -> dict[str, Any]:
    """A limit: Google writes 64-bit numbers as text, leaves zeros out, and `dimensions` where there are none."""
    details = {} if value is None else {"value": str(value)}
    found: dict[str, Any] = {"details": details, "applicableLocations": list(places) or ["europe-west4", "us-central1"]}
    return found | ({"dimensions": dimensions} if dimensions else {})


def quota(quota_id: str, *limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A QuotaInfo."""
    return {"quotaId": quota_id, "service": "compute.googleapis.com", "dimensionsInfos": list(limits), **more}


def reservation(**changed: Any) -> dict[str, Any]:
    """A reservation as its owner sees it."""
    return {
        "name": "b200-production",
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "12",
            "inUseCount": "0",
            "instanceProperties": {"machineType": "a4-highgpu-8g"},
        },
    } | changed


def capacity() -> dict[str, Any]:
    """What the Advice API says of the machines' chances today."""
    return {
        "recommendations": [
            {
                "scores": {"obtainability": 0.8, "estimatedUptime": "3600s"},
                "shards": [
                    {
                        "instanceCount": 12,
                        "machineType": "a4-highgpu-8g",
                        "provisioningModel": "SPOT",
                        "zone": "europe-west4-b",
                    }
                ],
            }
        ]
    }


def history() -> dict[str, Any]:
    """What it says of the last days."""
    days = [
        {"interval": {"startTime": f"2026-11-{day}T08:00:00Z", "endTime": f"2026-11-{day + 1}T08:00:00Z"}}
        for day in (27, 28)
    ]
    money = {"currencyCode": "USD", "units": "34", "nanos": 70_000_000}
    return {
        "machineType": "a4-highgpu-8g",
        "location": "zones/europe-west4-b",
        "preemptionHistory": [{**day, "preemptionRate": rate} for day, rate in zip(days, (0.0, 0.5), strict=True)],
        "priceHistory": [{**days[1], "listPrice": money}, {**days[0], "listPrice": {**money, "units": "39"}}],
    }


def subnet(name: str, cidr: str, **changed: Any) -> dict[str, Any]:
    """A Subnetwork of VPC office."""
    network = "https://www.googleapis.com/compute/v1/projects/host-project/global/networks/office"
    return {
        "name": name,
        "network": network,
        "ipCidrRange": cidr,
        "purpose": "PRIVATE",
        "privateIpGoogleAccess": True,
        **changed,
    }


def answers() -> dict[str, Any]:
    """By host and path; without the APIs and permissions, of which all that are asked for are there."""
    quotas = [
        quota(B200, limit(96)),
        quota("GPUS-ALL-REGIONS-per-project", limit(96, "global")),
        quota("CPUS-ALL-REGIONS-per-project", limit(64, "global")),
        quota("CPUS-per-project-region", limit(72)),
        quota(
            "CPUS-PER-VM-FAMILY-per-project-region",
            limit(24, "europe-west4", region="europe-west4", vm_family="C4"),
            limit(64, "europe-west4", region="europe-west4", vm_family="C4A"),
            limit(8, "us-central1", region="us-central1", vm_family="C4A"),
        ),
        quota("HDML-TOTAL-GB-per-project-region", limit(10_240)),
        quota("HDML-TOTAL-THROUGHPUT-per-project-region", limit(30_720)),
        quota("HDB-TOTAL-GB-per-project-region", limit(8_192)),
        quota("SSD-TOTAL-GB-per-project-region", limit(500)),
    ]
    secondary = [
        {"rangeName": "gke-pods", "ipCidrRange": "10.64.0.0/14"},
        {"rangeName": "gke-services", "ipCidrRange": "10.32.0.0/20"},
    ]
    nodes = subnet("gke-west", "10.1.0.0/20", secondaryIpRanges=secondary)
    proxies = subnet("proxies", "10.9.0.0/23", purpose="REGIONAL_MANAGED_PROXY", role="ACTIVE")
    return {
        **{f"{QUOTAS}/{one['quotaId']}": one for one in quotas},
        f"{PROJECT}/zones/europe-west4-b/machineTypes/a4-highgpu-8g": {"name": "a4-highgpu-8g"},
        f"{PROJECT}/zones/europe-west4-b/reservations/b200-production": reservation(),
        f"{ADVICE}/capacity": capacity(),
        f"{ADVICE}/capacityHistory": history(),
        f"{HOST}/regions/europe-west4/subnetworks": {"items": [nodes, proxies]},
        f"{HOST}/regions/europe-west4/routers": {
            "items": [{"name": "office-router", "network": nodes["network"], "nats": [{"name": "office-nat"}]}]
        },
    }


class FakeProject(BaseAdapter):
    """Answers requests of the session: a document, or a number for a refusal with that status."""

    def __init__(self, changed: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.said = answers() | dict(changed or {})
        self.off: set[str] = set()
        """APIs."""
        self.denied: set[str] = set()
        """Permissions."""
        self.asked: list[tuple[str, str, Any]] = []
        """Method, host and path, and body."""

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        url = urlsplit(str(request.url))
        where, body = f"{url.netloc}{url.path}", json.loads(request.body or "null")
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        self.asked.append((str(request.method), where, body))
        if where in self.said:
            said = self.said[where]
        elif where.endswith("/services:batchGet"):
            names = parse_qs(url.query)["names"]
            services = [{"config": {"name": one.rpartition("/")[2]}, "state": "ENABLED"} for one in names]
            said = {
                "services": [
                    one | {"state": "DISABLED"} if one["config"]["name"] in self.off else one for one in services
                ]
            }  # type: ignore[index]
        elif where.endswith(":testIamPermissions"):
            said = {"permissions": [one for one in body["permissions"] if one not in self.denied]}
        else:
            said = 404
        response = requests.Response()
        response.status_code = said if type(said) is int else 200
        refused = {"error": {"message": f"made to say {said}"}}
        response._content = json.dumps(refused if type(said) is int else said).encode()
        response.request, response.url = request, str(request.url)
        return response

    def close(self) -> None:
        """Nothing is open."""


def session(project: FakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every session end at this project."""
    real = google_module.AuthorizedSession

    def mounted(*arguments: Any) -> Any:
        made = real(*arguments)  # type: ignore[no-untyped-call]
        made.mount("https://", project)
        return made

    monkeypatch.setenv(VARIABLE, TOKEN)
    monkeypatch.setattr(google_module, "AuthorizedSession", mounted)


def rows(settings: Settings, project: FakeProject | None = None) -> dict[str, Finding]:
    """The findings by what they are about."""
    with pytest.MonkeyPatch.context() as patch:
        session(project or FakeProject(), patch)
        return {row.subject: row for row in findings(settings, Google())}
