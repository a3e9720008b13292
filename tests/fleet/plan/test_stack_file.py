"""A plan as a stack file: it says what the plan says, nothing refuses it, and it appears whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts.models import CATALOGUE
from fleet.plan.asked import Asked, Place
from fleet.plan.from_settings import deployment_of, facts_of_stack
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, question_of
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError
from fleet.plan.routers import routers_for
from fleet.plan.stack_file import write_stack
from fleet.preview.offline import open_stack
from settings.derived.figures import figures
from settings.load import accept, check
from settings.problems import SettingsError
from settings.stack_file import read
from tests.support.canaries import CANARIES, shown
from tests.support.engine_form import rewritten

ROOT = Path(__file__).resolve().parents[3]
OF_A4 = [capacity for capacity in CAPACITIES if capacity != "on-demand"]
NAMED = ("cud-1y", "cud-3y", "reservation", "calendar")
DOCUMENTS: dict[str, Any] = {"documents": 50_000, "tokens_per_document": 3_000, "output_tokens": 500}


def answer(**options: Any) -> Plan:
    # A reservation is production, which refuses the record's release for its advisories.
    profile = {"profile": "tuned"} if options.get("capacity") in NAMED and "documents" not in options else {}
    return plan(question_of(Asked(**{**profile, **options})))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    return tmp_path


def written(root: Path, made: Plan, **options: Any) -> Any:
    if made.question.capacity in NAMED:
        options.setdefault("reservation", "b200-production")
    path, *_ = write_stack(root, "planned", made, Place(**options), replace=True)
    assert rewritten(path.read_text(encoding="utf-8")) == []
    return open_stack(root, "planned").settings


@pytest.mark.parametrize("capacity", OF_A4)
@pytest.mark.parametrize("gateway", [False, True])
def test_the_stack_is_the_plan(root: Path, capacity: Any, gateway: bool) -> None:
    made = answer(users=8_000, capacity=capacity, gateway=gateway, spares=1)
    stack = written(root, made)
    assert stack.replicas == made.machines == made.nodes + 1
    assert stack.placement.price_key == capacity
    assert stack.gateway.enabled is gateway
    assert (stack.weights.size_gib, stack.weights.throughput_mibps) == (
        made.sizing.volume_gib,
        made.sizing.volume_mibps,
    )
    assert facts_of_stack(stack) == made.question.profile
    assert deployment_of(stack).engine == made.deployment.engine


@pytest.mark.parametrize("capacity", OF_A4)
@pytest.mark.parametrize("gateway", [False, True])
def test_the_preview_names_the_plans_own_bill_and_figure(root: Path, capacity: Any, gateway: bool) -> None:
    made = answer(users=3_000, capacity=capacity, gateway=gateway, usd_per_node_hour=40.0, workload="article")
    shown = figures(written(root, made))
    assert shown.bill == made.money.bill
    assert shown.match == made.published


@pytest.mark.parametrize("spares", [0, 3])
def test_a_plan_with_routers_writes_those_it_sized_and_their_price_is_unknown(root: Path, spares: int) -> None:
    made, without = (answer(requests_per_second=600, routers=one, spares=spares) for one in (True, False))
    stack, sized = written(root, made), routers_for(made)
    assert sized is not None
    router = stack.endpoint.router
    assert stack.endpoint_kind == "leastRequest"
    assert (router.replicas, router.cpu, router.memory_gib) == (sized.replicas, sized.cpu, sized.memory_gib)
    assert figures(stack).bill == made.money.bill
    (item,) = (one for one in made.money.bill.items if one.id == "router")
    assert (item.quantity, item.unit_price_usd) == (router.replicas * router.cpu, None)
    assert item.reason
    assert made.money.at_least
    assert made.money.bill.usd_per_hour_known == without.money.bill.usd_per_hour_known


def test_routers_and_a_gateways_picker_are_one_choice() -> None:
    with pytest.raises(AskingError, match=r"--routers and --gateway cannot be combined"):
        answer(users=8_000, routers=True, gateway=True)


def test_more_routers_than_a_stack_may_have_are_an_impossible_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.plan.planning.size_routers", lambda *_: None)
    with pytest.raises(PlanImpossibleError, match=r"more than 20 routers"):
        answer(requests_per_second=600, routers=True)


@pytest.mark.parametrize("documents", [50, 50_000])
def test_a_batch_on_flex_start_has_time_to_end(root: Path, documents: int) -> None:
    made = answer(**{**DOCUMENTS, "documents": documents}, deadline="8h", capacity="flex-start")
    assert made.batch is not None
    stack = written(root, made)
    assert stack.capacity.run_duration_seconds >= made.batch.total_hours * 3600
    assert "run-too-short" not in {problem.id for problem in check(stack)}
    assert stack.cluster.deletion_protection is False


def test_a_client_gets_fewer_connections_where_its_core_would_be_the_limit(root: Path) -> None:
    slow, fast = answer(users=16_000), answer(requests_per_second=640, isl=64, osl=512, tpot_ms=32)
    assert written(root, slow).benchmark.connections_per_client == 1_000
    assert fast.sizing.benchmark_clients > fast.sizing.benchmark_connections / 1_000 + 1
    stack = written(root, fast)
    per_client = stack.benchmark.connections_per_client
    assert per_client * fast.sizing.benchmark_clients <= fast.sizing.benchmark_connections
    assert per_client >= 1


def test_a_project_of_ones_own_passes_the_check_that_refuses_placeholders(root: Path) -> None:
    write_stack(root, "planned", answer(users=100), Place(project="my-project-1", zone="us-central1-b"))
    stack = accept("planned", read(root, "planned").config)
    assert (stack.project, stack.region, stack.zones) == ("my-project-1", "us-central1", ("us-central1-b",))
    # The editor's schema line only where the schema is.
    assert "$schema" not in (root / "Pulumi.planned.yaml").read_text()
    (root / "settings").mkdir()
    (root / "settings" / "stack.schema.json").touch()
    write_stack(root, "planned", answer(users=100), replace=True)
    assert "$schema=settings/stack.schema.json" in (root / "Pulumi.planned.yaml").read_text()


def test_a_file_that_is_there_stays_unless_it_may_be_replaced(root: Path) -> None:
    (root / "Pulumi.planned.yaml").write_text("config: {}\n")
    with pytest.raises(SettingsError, match=r"Pulumi\.planned\.yaml") as caught:
        write_stack(root, "planned", answer(users=100))
    assert "--force" in str(caught.value)
    assert (root / "Pulumi.planned.yaml").read_text() == "config: {}\n"
    write_stack(root, "planned", answer(users=100), replace=True)
    assert "fleet plan" in (root / "Pulumi.planned.yaml").read_text()


def test_what_would_be_refused_is_not_written(root: Path) -> None:
    made = answer(users=100)
    # Nothing that a goal leads to; a plan that was tampered with has to stop somewhere.
    wrong = replace(made, sizing=replace(made.sizing, volume_gib=4))
    with pytest.raises(SettingsError, match="vllm-fleet:weights"):
        write_stack(root, "planned", wrong)
    assert [path.name for path in root.iterdir()] == ["Pulumi.yaml"]


def test_a_release_that_production_refuses_is_refused_with_another_profile(root: Path) -> None:
    made = answer(users=100, capacity="reservation", profile="record")
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", made, Place(reservation="b200-production"))
    (problem,) = caught.value.problems
    assert problem.id == "advisories-in-production"
    assert "--profile tuned" in problem.write


def test_a_ladder_without_a_named_reservation_has_the_line_that_adds_one(root: Path) -> None:
    made = answer(users=8_000, capacity="ladder")
    assert written(root, made, reservation="mine").capacity.reservation.name == "mine"
    assert written(root, made).capacity.reservation is None
    file = root / "Pulumi.planned.yaml"
    line = "    # reservation: {name: NAME}"
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, "    reservation: {name: mine}"), encoding="utf-8")
    assert open_stack(root, "planned").settings.capacity.reservation.name == "mine"


def test_a_secret_among_the_options_is_refused_and_not_shown(root: Path) -> None:
    made = answer(users=100, capacity="ladder")
    for canary in CANARIES.values():
        for how in ({"project": canary}, {"reservation": canary}, {"zone": canary}, {"stack": canary}):
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


@pytest.mark.parametrize(
    ("options", "how", "path", "write"),
    [
        ({"capacity": "cud-1y"}, {}, "--reservation", "--reservation b200-production"),
        ({"capacity": "calendar"}, {}, "--reservation", "--reservation b200-production"),
        ({}, {"reservation": "mine"}, "--reservation", "cud-1y, cud-3y, reservation, calendar and ladder"),
        ({"capacity": "reservation"}, {"reservation": "Not_A_Name"}, "--reservation", "--reservation"),
        ({}, {"project": "NO"}, "--project", "--project my-project"),
        ({}, {"project": "my-project\nevil: true"}, "--project", "--project my-project"),
        ({}, {"zone": "europe-west4"}, "--zone", "--zone europe-west4-b"),
        # Another region has the machine; none is known to; its zones are known, its price is not.
        (
            {"machine": "a3-highgpu-1g", "region": "europe-west2"},
            {},
            "--zone",
            "--zone europe-west1-b, in region europe-west1",
        ),
        ({"machine": "g4-standard-48", "region": "us-central1"}, {}, "--zone", "--filter=name=g4-standard-48"),
        ({"machine": "a3-ultragpu-8g", "region": "us-west2"}, {}, "--zone", "--zone us-west1-c, in region us-west1"),
        ({"users": 2_500_000}, {}, "--write", "several plans"),
    ],
)
def test_names_that_are_missing_or_wrong_are_asked_for(
    root: Path, options: dict[str, Any], how: dict[str, Any], path: str, write: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        write_stack(root, "planned", answer(**{"users": 1_000, **options}), Place(**how))
    (problem,) = caught.value.problems
    assert problem.subject == path
    assert write in (f"{problem.allowed} {problem.write}" if path != "--zone" else problem.write)
    assert not (root / "Pulumi.planned.yaml").exists()


@pytest.mark.parametrize("name", ["", "../evil", "a.b", "1st", "a b"])
def test_a_stacks_name_is_a_name(root: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"Pulumi\.STACK\.yaml"):
        write_stack(root, name, answer(users=100))


goals = st.one_of(
    st.builds(lambda n: {"tokens_per_second": n}, st.floats(1_000, 5e6)),
    st.builds(lambda n: {"users": n}, st.floats(1, 1e5)),
    st.builds(
        lambda n, isl, osl: {"requests_per_second": n, "isl": isl, "osl": osl},
        st.floats(0.1, 500),
        st.integers(1, 100_000),
        st.integers(1, 2_000),
    ),
    st.builds(lambda n: {"usd_per_hour": n}, st.floats(100, 5_000)),
    st.builds(
        lambda n, tokens, out: {"documents": n, "tokens_per_document": tokens, "output_tokens": out},
        st.integers(1, 10**7),
        st.integers(1, 30_000),
        st.integers(1, 2_000),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    goal=goals,
    capacity=st.sampled_from(OF_A4),
    gateway=st.booleans(),
    spares=st.integers(0, 3),
    headroom=st.floats(0, 0.5),
)
def test_every_plan_becomes_a_stack_that_nothing_refuses(
    root: Path, goal: dict[str, Any], capacity: Any, gateway: bool, spares: int, headroom: float
) -> None:
    try:
        made = answer(**goal, capacity=capacity, gateway=gateway, spares=spares, headroom=headroom)
    except PlanImpossibleError:
        return
    stack = written(root, made)  # open_stack raises on anything that is refused
    assert stack.replicas == made.machines
    assert figures(stack).bill.usd_per_hour_known == pytest.approx(made.money.usd_per_hour)


# Machine, model, ceiling ----------------------------------------------------------------------------------------------


def test_machine_model_and_ranks_are_the_plans(root: Path) -> None:
    made = answer(users=64, machine="a3-highgpu-2g", model="Qwen/Qwen3-32B-FP8", region="europe-north1")
    stack = written(root, made, zone="europe-north1-c", revision="0123456789abcdef0123456789abcdef01234567")
    assert (stack.machine, stack.serving.model.id) == (made.question.machine, "Qwen/Qwen3-32B-FP8")
    engine, shape = stack.serving.engine, made.deployment.engine
    assert (engine.data_parallel_size, engine.tensor_parallel_size) == (shape.data_parallel, shape.tensor_parallel)
    again = deployment_of(stack)
    assert (again.gpu, again.gpus_per_node, again.model) == (made.deployment.gpu, 2, made.deployment.model)
    assert again.engine == shape


def test_a_model_without_a_commit_is_not_written(root: Path) -> None:
    unpinned = next(one for one in CATALOGUE.values() if one.revision is None)
    made = answer(users=64, machine="a4-highgpu-8g", model=unpinned.id)
    with pytest.raises(SettingsError, match="--revision"):
        write_stack(root, "planned", made)
    assert [one.name for one in root.iterdir()] == ["Pulumi.yaml"]


@pytest.mark.parametrize(("capacity", "stated"), [("spot", None), ("spot", 50.0), ("calendar", None)])
def test_a_written_stack_has_a_ceiling_a_little_above_its_bill(root: Path, capacity: Any, stated: float | None) -> None:
    made = answer(users=16_000, capacity=capacity, usd_per_node_hour=stated)
    written(root, made)
    (rule,) = json.loads((root / "policy" / "config" / "planned.json").read_text()).values()
    assert rule["maxUsdPerHour"] == pytest.approx(1.05 * made.money.usd_per_hour, abs=0.01)
    assert rule["maxUsdPerHour"] >= 1.05 * made.money.usd_per_hour
    assert rule.get("usdPerNodeHour") == (made.money.usd_per_node_hour if capacity == "calendar" else stated)


def test_without_a_price_there_is_no_ceiling_and_one_that_is_there_stays(root: Path) -> None:
    made = answer(users=16_000, capacity="reservation")
    written(root, made)
    assert not (root / "policy").exists()
    limits = root / "policy" / "config" / "other.json"
    limits.parent.mkdir(parents=True)
    limits.write_text("{}")
    with pytest.raises(SettingsError, match=r"other\.json"):
        write_stack(root, "other", answer(users=16_000))
    assert not (root / "Pulumi.other.yaml").exists()
