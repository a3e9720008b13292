from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from settings.checks.structure import structural_problems
from settings.derived.google_cloud_needs import required_apis, required_permissions
from settings.derived.quota_needs import quota_needs
from tests.support.recorded import BUDGET, GATEWAY, ROOT
from tests.support.settings import make_settings

GUIDE = (ROOT / "docs" / "google-cloud.md").read_text(encoding="utf-8")
NAMED = {**GATEWAY, "hostname": "llm.acme.dev"}
# A whole stack file is tried by tests/guides/test_stack_files.py.
EXAMPLES = re.findall(r"```yaml\n(?!# Pulumi\.)(.*?)```", GUIDE, re.DOTALL)
API_NAMES = {
    "artifactregistry": "Artifact Registry",
    "billingbudgets": "Cloud Billing Budget",
    "certificatemanager": "Certificate Manager",
    "cloudresourcemanager": "Cloud Resource Manager",
    "compute": "Compute Engine",
    "container": "Kubernetes Engine",
    "containerfilesystem": "Container File System",
    "iam": "IAM",
    "logging": "Logging",
    "monitoring": "Monitoring",
    "networkservices": "Network Services",
    "secretmanager": "Secret Manager",
    "storage": "Cloud Storage",
}


def _sections(example: str) -> dict[str, Any]:
    return {key.removeprefix("vllm-fleet:"): value for key, value in yaml.safe_load(example).items()}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_pasted_into_a_stack_file(example: str) -> None:
    sections = json.loads(json.dumps(_sections(example)))
    settings = make_settings(**sections)
    assert [problem.text() for problem in structural_problems(settings) if problem.severity == "error"] == []


def test_the_examples_are_all_found() -> None:
    assert len(EXAMPLES) == 7


def test_every_api_has_its_name_in_the_guide() -> None:
    every = required_apis(make_settings(gateway=NAMED, budget=BUDGET, weights={"tokenSecret": "hf"}))
    assert {api.removesuffix(".googleapis.com") for api in every} == API_NAMES.keys()
    text = " ".join(GUIDE.partition("## The APIs")[2].partition("\n## ")[0].split())
    assert [name for name in API_NAMES.values() if name not in text] == []


ROLES = {
    "roles/artifactregistry.admin": "Artifact Registry Admin",
    "roles/certificatemanager.editor": "Certificate Manager Editor",
    "roles/compute.admin": "Compute Admin",
    "roles/container.admin": "Kubernetes Engine Admin",
    "roles/iam.serviceAccountAdmin": "Service Account Admin",
    "roles/iam.serviceAccountUser": "Service Account User",
    "roles/logging.configWriter": "Logs Configuration Writer",
    "roles/monitoring.editor": "Monitoring Editor",
    "roles/resourcemanager.projectIamAdmin": "Project IAM Admin",
    "roles/secretmanager.admin": "Secret Manager Admin",
    "roles/serviceusage.serviceUsageAdmin": "Service Usage Admin",
    "roles/storage.admin": "Storage Admin",
}


def test_every_role_that_the_doctor_asks_for_is_in_the_guide() -> None:
    watched = {"alerts": {"channels": [{"type": "email", "address": "oncall@example.com"}]}}
    needed = required_permissions(make_settings(gateway=NAMED, weights={"tokenSecret": "hf"}, monitoring=watched))
    assert set(needed.values()) == ROLES.keys()
    text = " ".join(GUIDE.split())
    assert [title for title in ROLES.values() if title not in text] == []


@pytest.mark.parametrize(
    ("machine", "mode"), [("a4-highgpu-8g", "spot"), ("g2-standard-12", "on-demand"), ("a3-highgpu-8g", "on-demand")]
)
def test_every_quota_that_the_doctor_asks_for_is_in_the_guide(machine: str, mode: str) -> None:
    needs = quota_needs(make_settings(machine=machine, capacity={"mode": mode}, benchmark={"enabled": True}))
    names = {need.quota.ids[0].partition("-per-")[0] for need in needs}
    assert [name for name in names if f"`{name}-" not in GUIDE] == []
