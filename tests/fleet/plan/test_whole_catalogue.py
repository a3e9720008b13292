"""`fleet plan --write` for every model of the catalogue on its smallest machine, and for one of one's own: check, preview, policies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from facts import prices
from facts.machines import MACHINES, Machine
from facts.models import CATALOGUE
from fleet.plan.asked import Asked, Place
from fleet.plan.from_settings import facts_of_stack
from fleet.plan.modelled import modelled
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, question_of
from fleet.plan.question.goals import PlanImpossibleError
from fleet.plan.stack_file import region_with, write_stack
from fleet.preview.offline import open_stack
from fleet.preview.stack_preview import preview_stack
from settings.load import accept, check
from settings.problems import SettingsError
from settings.stack_file import read
from tests.fleet.cli.command import whole_project
from tests.settings.checks.test_model import HYBRID, LLAMA
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
REVISION = "0" * 40
"""A number to YAML, as the catalogue's 0b27... is."""
UNPRICED = "us-central1-a"
"""Zone for machines whose zones are not published."""
VCPU_PER_GPU = 6
OWN = ("my-team/our-model-8b", "our-model.json")


def smallest(model: str, **asked: Any) -> Plan:
    """The plan on the machine with the least GPU memory that holds the model."""
    machines = (one for one in MACHINES.values() if one.vcpu >= VCPU_PER_GPU * one.gpus)
    for machine in sorted(machines, key=lambda one: (one.gpu.memory_gib * one.gpus, one.vcpu)):
        try:
            return plan(question_of(Asked(model=model, machine=machine.type, region=region_of(machine), **asked)))
        except (AskingError, PlanImpossibleError):
            continue
    raise AssertionError(f"{model} fits no machine")


def region_of(machine: Machine) -> str:
    return region_with(machine.type) if has_zones(machine) else UNPRICED.rpartition("-")[0]


def has_zones(machine: Machine) -> bool:
    return any(price.zones for price in prices.published(machine.type))


def place_of(made: Plan, **options: Any) -> Place:
    zone = None if has_zones(made.question.machine) else UNPRICED
    return Place(project="my-project-1", zone=zone, **options)


def revision_of(model: str) -> Mapping[str, str]:
    return {} if CATALOGUE[model].revision else {"revision": REVISION}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    return tmp_path


LENGTHS: tuple[dict[str, Any], ...] = (
    {"users": 20},
    {"users": 20, "isl": 3_000, "osl": 200},
    {"users": 20, "workload": "vllm-1024-512"},
    {"documents": 500, "tokens_per_document": 2_000, "longest_document": 3_000, "output_tokens": 300},
)


@pytest.mark.slow
@each_row("model", CATALOGUE)
@each_row("asked", LENGTHS)
def test_what_is_written_is_checked_and_estimated_as_it_was_planned(
    root: Path, model: str, asked: dict[str, Any]
) -> None:
    made = smallest(model, **asked)
    write_stack(root, "planned", made, place_of(made, **revision_of(model)), replace=True)
    settings = accept("planned", read(root, "planned").config)
    planned, stack = made.question.profile, facts_of_stack(settings)
    assert (stack.flags, stack.env, stack.engine_version) == (planned.flags, planned.env, planned.engine_version)
    assert (stack.model, stack.model_shape, stack.weights_gb) == (model, planned.model_shape, planned.weights_gb)
    estimate = modelled(settings)
    assert estimate is not None
    assert estimate.requests == made.question.workload
    assert estimate.total_tokens_per_s.reasons == made.performance.total_tokens_per_s.reasons


@pytest.mark.slow
@each_row("model", CATALOGUE)
def test_on_b200_the_check_has_nothing_against_what_is_written(root: Path, model: str) -> None:
    made = plan(question_of(Asked(model=model, machine="a4-highgpu-8g", users=20, profile="serve-chat")))
    write_stack(root, "planned", made, place_of(made, **revision_of(model)), replace=True)
    settings = accept("planned", read(root, "planned").config)
    assert facts_of_stack(settings).flags == made.question.profile.flags
    assert not [problem.id for problem in check(settings) if problem.severity != "note"]


@each_row(
    ("machine", "profile"),
    [
        ("a2-highgpu-1g", "tuned"),
        ("a2-highgpu-8g", "serve-chat"),
        ("a3-highgpu-1g", "record"),
        ("a3-highgpu-8g", "tuned"),
    ],
)
def test_no_more_sequences_are_written_than_states_fit(root: Path, machine: str, profile: str) -> None:
    asked = Asked(users=20, machine=machine, profile=profile, region=region_of(MACHINES[machine]))
    made = plan(question_of(asked))
    write_stack(root, "planned", made, place_of(made), replace=True)
    settings = accept("planned", read(root, "planned").config)
    assert "sequences-above-states" not in {finding.id for finding in check(settings)}
    assert settings.serving.engine.max_num_seqs == made.question.profile.shape.max_num_seqs


@each_row("config", [LLAMA, HYBRID, {**LLAMA, "_name_or_path": "meta-llama/Llama-3.1-8B-Instruct"}])
def test_a_model_of_ones_own_is_written_with_its_repository_and_config(root: Path, config: dict[str, Any]) -> None:
    repository, file = OWN
    path = root / file
    path.write_text(json.dumps(config))
    made = smallest(str(path), users=20)
    place = place_of(made, repository=repository, revision=REVISION, token_secret="hf-team")
    write_stack(root, "planned", made, place, config=path, replace=True)
    settings = open_stack(root, "planned").settings
    model = settings.serving.model
    assert (model.id, model.revision, settings.server.name) == (repository, REVISION, "our-model-8b-server")
    assert model.size_gb == pytest.approx(made.question.profile.weights_gb, abs=0.1)
    assert settings.serving.shape is not None
    assert settings.serving.shape.architecture == made.question.profile.model_shape.architecture
    assert settings.hf_token_secret is not None
    assert settings.hf_token_secret.name == "hf-team"
    stack = facts_of_stack(settings)
    assert stack.flags == made.question.profile.flags


def test_a_config_beside_the_project_is_written_relative_to_the_stack_file(root: Path) -> None:
    project, path = root / "project", root / "models" / OWN[1]
    for folder in (project, path.parent):
        folder.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", project)
    path.write_text(json.dumps(LLAMA))
    made = smallest(str(path), users=20)
    write_stack(project, "planned", made, place_of(made, repository=OWN[0], revision=REVISION), config=path)
    assert f'config: "../models/{OWN[1]}"' in (project / "Pulumi.planned.yaml").read_text()
    assert open_stack(project, "planned").settings.serving.shape is not None


@each_row(
    ("place", "subjects"),
    [
        ({}, {"--repository", "--revision"}),
        ({"repository": OWN[0]}, {"--revision"}),
        ({"revision": REVISION}, {"--repository"}),
        ({"repository": OWN[0], "revision": "main"}, {"--revision"}),
    ],
)
def test_what_a_config_does_not_say_is_asked_for(root: Path, place: dict[str, str], subjects: set[str]) -> None:
    path = root / OWN[1]
    path.write_text(json.dumps(LLAMA))
    made = smallest(str(path), users=20)
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", made, place_of(made, **place), config=path)
    assert {problem.subject for problem in caught.value.problems} == subjects


@pytest.mark.slow
def test_the_policies_pass_what_is_written(tmp_path: Path) -> None:
    root = whole_project(tmp_path)
    stopped: dict[str, list[str]] = {}
    for number, model in enumerate(CATALOGUE):
        made = smallest(model, users=20)
        write_stack(root, f"planned{number}", made, place_of(made, **revision_of(model)))
        report = preview_stack(root, f"planned{number}")
        assert report.policies.state == "judged"
        if found := [f"{one.policy}: {one.message}" for one in report.policies.mandatory]:
            stopped[model] = found
    assert not stopped
