"""A plan as a stack file: it says what the plan says, nothing refuses it, and it appears whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.models import CATALOGUE
from fleet.plan.asked import Asked
from fleet.plan.from_settings import deployment_of, facts_of_stack
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import question_of
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError
from fleet.plan.stack_file import Place, write_stack
from fleet.preview.offline import open_stack
from settings.checks.placeholders import placeholders
from settings.derived.figures import figures
from settings.load import accept, check
from settings.problems import SettingsError
from settings.stack import Settings
from settings.stack_file import read
from tests.support.canaries import CANARIES, shown
from tests.support.engine_form import rewritten
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
OF_A4 = [capacity for capacity in CAPACITIES if capacity != "on-demand"]
NAMED = ("cud-1y", "cud-3y", "reservation", "calendar")
DOCUMENTS: dict[str, Any] = {"documents": 50_000, "input_tokens": 3_000, "output_tokens": 500}


def answer(**options: Any) -> Plan:
    # A reservation is production, which refuses the record's release for its advisories.
    profile = {"profile": "tuned"} if options.get("capacity") in NAMED and "documents" not in options else {}
    return plan(question_of(Asked(**{**profile, **options})))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    return tmp_path


def written(root: Path, made: Plan, name: str = "planned", **place: Any) -> Settings:
    path, *_ = write_stack(root, name, made, Place(**place))
    assert rewritten(path.read_text(encoding="utf-8")) == []
    return open_stack(root, name).settings


@pytest.mark.parametrize("capacity", OF_A4)
def test_the_stack_is_the_plan(root: Path, capacity: Any) -> None:
    made = answer(users=8_000, capacity=capacity, usd_per_node_hour=40.0)
    stack = written(root, made)
    assert (stack.replicas, stack.placement.price_key) == (made.nodes, capacity)
    assert stack.weights.size_gib == made.sizing.volume_gib
    assert stack.weights.throughput_mibps == made.sizing.volume_mibps
    assert facts_of_stack(stack) == made.question.profile
    assert deployment_of(stack).engine == made.deployment.engine
    assert figures(stack).bill == made.money.bill
    assert figures(stack).match == made.published
    names = {one.subject for one in placeholders(stack) if one.id == "placeholder"}
    assert bool(names) is (capacity in NAMED)


@pytest.mark.parametrize("documents", [50, 50_000])
def test_a_batch_on_flex_start_has_time_to_end(root: Path, documents: int) -> None:
    made = answer(**{**DOCUMENTS, "documents": documents}, deadline="8h", capacity="flex-start")
    assert made.batch is not None
    stack = written(root, made)
    assert stack.capacity.run_duration_seconds >= made.batch.total_hours * 3600
    assert "run-too-short" not in {problem.id for problem in check(stack)}
    assert stack.cluster.deletion_protection is False


def test_a_client_gets_fewer_connections_where_its_core_would_be_the_limit(root: Path) -> None:
    fast = answer(requests_per_second=640, input_tokens=64, output_tokens=512, tpot_ms=32)
    assert fast.sizing.benchmark_clients > fast.sizing.benchmark_connections / 1_000 + 1
    each = written(root, fast).benchmark.connections_per_client
    assert 1 <= each <= fast.sizing.benchmark_connections / fast.sizing.benchmark_clients


def test_a_project_and_a_zone_of_ones_own_pass_the_check_that_refuses_placeholders(root: Path) -> None:
    write_stack(root, "planned", answer(users=100), Place(project="my-project-1", zone="us-central1-b"))
    stack = accept("planned", read(root, "planned").config)
    assert (stack.project, stack.region, stack.zones) == ("my-project-1", "us-central1", ("us-central1-b",))
    # The editor's schema line only where the schema is.
    assert "$schema" not in (root / "Pulumi.planned.yaml").read_text()
    (root / "settings").mkdir()
    (root / "settings" / "stack.schema.json").touch()
    write_stack(root, "again", answer(users=100))
    assert "$schema=settings/stack.schema.json" in (root / "Pulumi.again.yaml").read_text()


def test_a_file_that_is_there_stays(root: Path) -> None:
    (root / "Pulumi.planned.yaml").write_text("config: {}\n")
    with pytest.raises(SettingsError, match=r"Pulumi\.planned\.yaml"):
        write_stack(root, "planned", answer(users=100))
    assert (root / "Pulumi.planned.yaml").read_text() == "config: {}\n"


@each_row(
    ("made", "id_"),
    [
        # Nothing that a goal leads to; a plan that was tampered with has to stop somewhere.
        (lambda: _with_volume(4), None),
        (lambda: answer(users=100, capacity="reservation", profile="record"), "advisories-in-production"),
    ],
)
def test_what_would_be_refused_is_not_written(root: Path, made: Any, id_: str | None) -> None:
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", made())
    assert id_ in (None, caught.value.problems[0].id)
    assert [path.name for path in root.iterdir()] == ["Pulumi.yaml"]


def _with_volume(gib: int) -> Plan:
    made = answer(users=100)
    return replace(made, sizing=replace(made.sizing, volume_gib=gib))


def test_a_secret_among_the_options_is_refused_and_not_shown(root: Path) -> None:
    made = answer(users=100)
    for canary in CANARIES.values():
        for how in ({"project": canary}, {"zone": canary}, {"stack": canary}):
            with pytest.raises(SettingsError) as caught:
                write_stack(root, how.pop("stack", "planned"), made, Place(**how))
            assert not shown(str(caught.value))
    assert [path.name for path in root.iterdir()] == ["Pulumi.yaml"]


def test_a_write_that_fails_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_stack(root, "planned", answer(users=100))
    assert [path.name for path in root.iterdir()] == ["Pulumi.yaml"]


@each_row(
    ("machine", "region", "write"),
    [
        # Another region has the machine; none is known to; its zones are known, its price is not.
        ("a3-highgpu-1g", "europe-west2", "europe-west1-b"),
        ("g4-standard-48", "us-central1", "--filter=name=g4-standard-48"),
        ("a3-ultragpu-8g", "us-west2", "us-west1-c"),
    ],
)
def test_a_zone_that_is_not_known_is_asked_for(root: Path, machine: str, region: str, write: str) -> None:
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", answer(users=1_000, machine=machine, region=region))
    (problem,) = caught.value.problems
    assert problem.id == "zone-name"
    assert write in str(problem.write)
    assert not (root / "Pulumi.planned.yaml").exists()


@each_row(
    ("how", "subject"),
    [
        ({"project": "NO"}, "gcp:project"),
        ({"project": "my-project\nevil: true"}, "gcp:project"),
        ({"zone": "europe-west4"}, "vllm-fleet:zones[0]"),
    ],
)
def test_names_that_are_wrong_are_refused_at_their_keys(root: Path, how: dict[str, Any], subject: str) -> None:
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", answer(users=1_000), Place(**how))
    assert subject in {one.subject for one in caught.value.problems}
    assert not (root / "Pulumi.planned.yaml").exists()


@pytest.mark.parametrize("name", ["", "../evil", "-x", "a b"])
def test_a_stacks_name_is_a_name(root: Path, name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        write_stack(root, name, answer(users=100))
    assert [one.id for one in caught.value.problems] == ["stack-name"]


lengths = {"input_tokens": st.integers(1, 30_000), "output_tokens": st.integers(1, 2_000)}
goals = st.one_of(
    st.fixed_dictionaries({"tokens_per_second": st.floats(1_000, 5e6)}),
    st.fixed_dictionaries({"users": st.floats(1, 1e5)}),
    st.fixed_dictionaries({"requests_per_second": st.floats(0.1, 500), **lengths}),
    st.fixed_dictionaries({"usd_per_hour": st.floats(100, 5_000)}),
    st.fixed_dictionaries({"documents": st.integers(1, 10**7), **lengths}),
)


@given(goal=goals, capacity=st.sampled_from(OF_A4))
def test_every_plan_becomes_a_stack_that_nothing_refuses(goal: dict[str, Any], capacity: Any) -> None:
    try:
        made = answer(**goal, capacity=capacity)
    except PlanImpossibleError:
        return
    with _project() as root:
        stack = written(root, made)  # open_stack raises on anything that is refused
    assert stack.replicas == made.nodes
    assert figures(stack).bill.usd_per_hour_known == pytest.approx(made.money.usd_per_hour)


@contextmanager
def _project() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        shutil.copy(ROOT / "Pulumi.yaml", folder)
        yield Path(folder)


# Machine, model, ceiling ----------------------------------------------------------------------------------------------


@each_row(("limit", "ranks"), [(None, 1), (40, 2)])
def test_machine_model_and_ranks_are_the_plans(root: Path, limit: float | None, ranks: int) -> None:
    made = answer(users=64, machine="a3-highgpu-2g", model="Qwen/Qwen3-32B-FP8", region="europe-north1", tpot_ms=limit)
    stack = written(root, made, f"ranks{ranks}", zone="europe-north1-c")
    assert (stack.machine, stack.serving.model.id) == (made.question.machine, "Qwen/Qwen3-32B-FP8")
    again = deployment_of(stack)
    assert (again.gpu, again.gpus_per_node, again.model) == (made.deployment.gpu, 2, made.deployment.model)
    assert again.engine == made.deployment.engine
    assert again.engine.tensor_parallel == ranks
    assert "without-effect" not in {one.id for one in check(stack)}


def test_a_split_for_latency_is_written_with_its_reason_and_nothing_refuses_it(root: Path) -> None:
    made = answer(users=16, machine="a4-highgpu-8g", model="meta-llama/Llama-3.3-70B-Instruct", tpot_ms=50)
    stack = written(root, made)
    assert stack.server.tensor_parallel_reason == made.question.split_because
    judged = {one.id: one.severity for one in check(stack)}
    assert judged.get("tp8-on-one-gpu-model") in (None, "deliberate", "note")
    assert "without-effect" not in judged


def test_a_model_without_a_commit_has_a_placeholder(root: Path) -> None:
    unpinned = next(one for one in CATALOGUE.values() if one.revision is None)
    stack = written(root, answer(users=64, machine="a4-highgpu-8g", model=unpinned.id))
    assert [one.subject for one in placeholders(stack) if one.id == "placeholder"] == ["vllm-fleet:model.revision"]


@pytest.mark.parametrize(("capacity", "stated"), [("spot", None), ("spot", 50.0), ("calendar", None)])
def test_a_written_stack_has_a_ceiling_a_little_above_its_bill(root: Path, capacity: Any, stated: float | None) -> None:
    made = answer(users=16_000, capacity=capacity, usd_per_node_hour=stated)
    written(root, made)
    (rule,) = json.loads((root / "policy" / "config" / "planned.json").read_text()).values()
    assert rule["maxUsdPerHour"] == pytest.approx(1.05 * made.money.usd_per_hour, abs=0.01)
    assert rule["maxUsdPerHour"] >= 1.05 * made.money.usd_per_hour
    assert rule.get("usdPerNodeHour") == (made.money.usd_per_node_hour if capacity == "calendar" else stated)


def test_without_a_price_there_is_no_ceiling_and_one_that_is_there_stays(root: Path) -> None:
    written(root, answer(users=16_000, capacity="reservation"))
    assert not (root / "policy").exists()
    limits = root / "policy" / "config" / "other.json"
    limits.parent.mkdir(parents=True)
    limits.write_text("{}")
    with pytest.raises(SettingsError, match=r"other\.json"):
        write_stack(root, "other", answer(users=16_000))
    assert not (root / "Pulumi.other.yaml").exists()
