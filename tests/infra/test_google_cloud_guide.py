from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from settings.checks.structure import structural_problems
from settings.derived.google_cloud_needs import required_apis
from settings.sections.capacity import window_total_usd
from tests.support.recorded import BUDGET, GATEWAY, ROOT
from tests.support.settings import make_settings

GUIDE = (ROOT / "docs" / "google-cloud.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
API_NAMES = {
    "artifactregistry": "Artifact Registry",
    "billingbudgets": "Cloud Billing Budget",
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
    assert [problem.text() for problem in structural_problems(settings) if problem.level == "refused"] == []


def test_the_examples_are_all_found() -> None:
    assert len(EXAMPLES) == 4


def test_the_window_of_the_example_costs_what_it_says() -> None:
    (capacity,) = [found["capacity"] for found in map(_sections, EXAMPLES) if "capacity" in found]
    request = capacity["create"]
    assert request["totalUsd"] == window_total_usd(
        request["nodes"], request["durationDays"], capacity["usdPerNodeHour"]
    )


def test_every_api_has_its_name_in_the_guide() -> None:
    every = required_apis(make_settings(gateway=GATEWAY, budget=BUDGET, weights={"tokenSecret": "hf"}))
    assert {api.removesuffix(".googleapis.com") for api in every} == API_NAMES.keys()
    text = " ".join(GUIDE.partition("## The APIs")[2].partition("\n## ")[0].split())
    assert [name for name in API_NAMES.values() if name not in text] == []


def test_every_file_that_the_guide_names_is_there_and_none_is_left_out() -> None:
    named = set(re.findall(r"`(infra/\w+\.py)`", GUIDE))
    there = {f"infra/{path.name}" for path in (ROOT / "infra").glob("*.py")}
    # Names, the composition and its outputs make no resource of their own kind.
    assert there - named == {"infra/__init__.py", "infra/naming.py", "infra/platform.py", "infra/platform_outputs.py"}
    assert named <= there
