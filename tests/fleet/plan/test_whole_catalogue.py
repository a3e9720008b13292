"""`fleet plan --write` for every model of the catalogue on its smallest machine, and for one of one's own: check, preview, policies."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from facts import prices
from facts.machines import MACHINES, Machine
from facts.models import CATALOGUE
from fleet.plan.asked import Asked
from fleet.plan.from_settings import facts_of_stack
from fleet.plan.modelled import modelled
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, question_of
from fleet.plan.question.goals import PlanImpossibleError
from fleet.plan.stack_file import Place, region_with, write_stack
from fleet.preview.offline import open_stack
from fleet.preview.stack_preview import preview_stack
from settings.checks.placeholders import placeholders
from settings.load import check, parse
from settings.stack_file import read
from tests.fleet.cli.command import whole_project
from tests.settings.checks.test_model import HYBRID, LLAMA
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
UNPRICED = "us-central1-a"
"""Zone for machines whose zones are not published."""
VCPU_PER_GPU = 6


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


def place_of(made: Plan) -> Place:
    return Place(project="my-project-1", zone=None if has_zones(made.question.machine) else UNPRICED)


def fresh(folder: Path) -> Path:
    """A project of its own: a file that is there is not replaced."""
    root = Path(mkdtemp(dir=folder))
    shutil.copy(ROOT / "Pulumi.yaml", root)
    return root


LENGTHS: tuple[dict[str, Any], ...] = (
    {"users": 20},
    {"users": 20, "input_tokens": 3_000, "output_tokens": 200},
    {"documents": 500, "input_tokens": 2_000, "longest_input": 3_000, "output_tokens": 300},
)


@pytest.mark.slow
@each_row("model", CATALOGUE)
@each_row("asked", LENGTHS)
def test_what_is_written_is_checked_and_estimated_as_it_was_planned(
    tmp_path: Path, model: str, asked: dict[str, Any]
) -> None:
    made = smallest(model, **asked)
    root = fresh(tmp_path)
    write_stack(root, "planned", made, place_of(made))
    settings = parse("planned", read(root, "planned").config)
    planned, stack = made.question.profile, facts_of_stack(settings)
    assert (stack.flags, stack.env, stack.engine_version) == (planned.flags, planned.env, planned.engine_version)
    assert (stack.model, stack.model_shape, stack.weights_gb) == (model, planned.model_shape, planned.weights_gb)
    estimate = modelled(settings)
    assert estimate is not None
    assert estimate.requests == made.question.workload
    assert estimate.performance.reasons == made.performance.reasons


@pytest.mark.slow
@each_row("model", CATALOGUE)
def test_on_b200_the_check_has_nothing_against_what_is_written(tmp_path: Path, model: str) -> None:
    made = plan(question_of(Asked(model=model, machine="a4-highgpu-8g", users=20, profile="serve-chat")))
    root = fresh(tmp_path)
    write_stack(root, "planned", made, place_of(made))
    settings = parse("planned", read(root, "planned").config)
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
def test_no_more_sequences_are_written_than_states_fit(tmp_path: Path, machine: str, profile: str) -> None:
    asked = Asked(users=20, machine=machine, profile=profile, region=region_of(MACHINES[machine]))
    made = plan(question_of(asked))
    root = fresh(tmp_path)
    write_stack(root, "planned", made, place_of(made))
    settings = parse("planned", read(root, "planned").config)
    assert "sequences-above-states" not in {finding.id for finding in check(settings)}
    assert settings.serving.engine.max_num_seqs == made.question.profile.shape.max_num_seqs


@each_row("config", [LLAMA, HYBRID, {**LLAMA, "_name_or_path": "meta-llama/Llama-3.1-8B-Instruct"}])
@each_row("folder", [".", "models"])
def test_a_model_of_ones_own_is_written_with_its_config_and_placeholders(
    tmp_path: Path, config: dict[str, Any], folder: str
) -> None:
    project, path = fresh(tmp_path), tmp_path / folder / "our-model.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config))
    made = smallest(str(path), users=20)
    write_stack(project, "planned", made, replace(place_of(made), project=None), config=path)
    settings = open_stack(project, "planned").settings
    model = settings.serving.model
    named = {one.subject for one in placeholders(settings) if one.id == "placeholder"}
    assert named >= {"vllm-fleet:model.id", "vllm-fleet:model.revision"}
    assert model.size_gb == pytest.approx(made.question.profile.weights_gb, abs=0.1)
    assert settings.serving.shape is not None
    assert settings.serving.shape.architecture == made.question.profile.model_shape.architecture
    assert facts_of_stack(settings).flags == made.question.profile.flags


@pytest.mark.slow
def test_the_policies_pass_what_is_written(tmp_path: Path) -> None:
    root = whole_project(tmp_path)
    stopped: dict[str, list[str]] = {}
    for number, model in enumerate(CATALOGUE):
        made = smallest(model, users=20)
        file, *_ = write_stack(root, f"planned{number}", made, place_of(made))
        file.write_text(file.read_text().replace("0" * 40, "a" * 40))  # a revision of one's own
        report = preview_stack(root, f"planned{number}")
        assert report.policies.state == "judged"
        if found := [f"{one.policy}: {one.message}" for one in report.policies.mandatory]:
            stopped[model] = found
    assert not stopped
