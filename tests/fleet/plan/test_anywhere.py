"""One goal on every machine: ranked by price, bounds apart, nothing left out without a reason; and one machine's plan beside it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from facts import prices
from facts.cost import Bill
from facts.machines import DEFAULT_MACHINE, MACHINES
from facts.models import CATALOGUE
from facts.workloads import named_workload
from fleet.plan.anywhere import Market, Offer, market
from fleet.plan.asked import Asked
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, NoFitError, question_of
from fleet.plan.question.fitting import UnknownModelError, engine_changes, fitted, model_facts
from fleet.plan.question.goals import way_of
from fleet.plan.question.profiles import profile_facts
from fleet.plan.report.market import outline
from fleet.report.as_text import print_text
from fleet.report.outline import Outline
from fleet.report.terminal import Paper
from tests.support.rows import each_row

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
ASKED = Asked(users=200, model="Qwen/Qwen3-32B-FP8")
BATCH = Asked(documents=10**6, input_tokens=2_000, output_tokens=100)
CHAT = profile_facts("serve-chat")


@pytest.fixture(scope="module")
def found() -> Market:
    return market(ASKED)


def rate(offer: Offer) -> float:
    return offer.plan.performance.total_tokens_per_s.value


@each_row(
    ("asked", "order"),
    [
        (ASKED, lambda offer: offer.usd_per_hour),
        # By its whole price.
        (BATCH, lambda offer: offer.usd),
        # By what it buys.
        (Asked(usd_per_hour=50), lambda offer: -rate(offer)),
    ],
)
def test_offers_are_ranked_and_bounds_come_after(asked: Asked, order: Callable[[Offer], float]) -> None:
    offers = market(asked).offers
    ranked = [offer for offer in offers if not offer.is_bound]
    assert offers[: len(ranked)] == tuple(ranked)
    assert [*map(order, ranked)] == sorted(map(order, ranked))
    assert asked.usd_per_hour is None or all(one.usd_per_hour <= asked.usd_per_hour for one in offers)
    assert {one.machine.gpu.name for one in offers if one.is_bound} == {"L4", "A100 40GB", "A100 80GB", "RTX PRO 6000"}


def test_an_offer_is_a_way_that_the_machine_is_sold_in_its_cheapest_region(found: Market) -> None:
    for offer in found.offers:
        assert way_of(offer.capacity) in offer.machine.ways
        listed = prices.published(offer.machine.type, offer.capacity)  # type: ignore[arg-type]
        assert (offer.price, *offer.dearer) == listed
        assert offer.plan.money.usd_per_node_hour == offer.price.usd
        assert offer.plan.question.region == offer.price.region


def test_every_machine_has_an_offer_or_a_reason(found: Market) -> None:
    told = {offer.machine for offer in found.offers} | {MACHINES[one] for no in found.refused for one in no.machines}
    assert {(one.gpu.name, one.gpus) for one in told} == {(one.gpu.name, one.gpus) for one in MACHINES.values()}
    assert all(no.why for no in found.refused)


def test_an_offer_is_the_plan_of_its_machine(found: Market) -> None:
    offer = found.offers[0]
    alone = plan(
        question_of(replace(ASKED, machine=offer.machine.type, capacity=offer.capacity, region=offer.price.region))
    )
    assert (alone.nodes, alone.money.usd_per_hour) == (offer.plan.nodes, offer.usd_per_hour)


def test_a_way_and_a_region_leave_only_those() -> None:
    only = market(replace(ASKED, capacity="on-demand", region="us-central1"))
    assert {(one.capacity, one.price.region, one.dearer) for one in only.offers} == {("on-demand", "us-central1", ())}
    assert "a4-highgpu-8g" in {machine for no in only.refused for machine in no.machines}


@each_row(
    "asked",
    [
        ASKED,
        Asked(usd_per_hour=50),
        BATCH,
        Asked(users=8, model=LLAMA),
        Asked(users=16_000),
        Asked(tokens_per_second=500_000),
        Asked(requests_per_second=50, input_tokens=2_000, output_tokens=300, tpot_ms=30),
        Asked(users=16_000, ttft_p99_ms=1),
    ],
)
def test_the_answer_fits_a_screen_and_says_what_it_left_out(asked: Asked) -> None:
    lines = printed(outline(market(asked)), 80).splitlines()
    assert len(lines) <= 25
    assert sum(line.startswith("Left out: ") for line in lines) == 1


def test_the_wording_of_the_answer(golden: Callable[[str, str], None]) -> None:
    golden("plan/any.txt", printed(outline(market(Asked(users=16_000))), 80))


@each_row(
    ("asked", "nearest"),
    [
        (Asked(users=16_000, ttft_p99_ms=1), "TTFT p99 of"),
        (Asked(users=5e7), "users on 1,000 nodes"),
        (Asked(usd_per_hour=0.5), "an hour"),
    ],
)
def test_the_nearest_goal_is_of_the_machine_that_comes_nearest(asked: Asked, nearest: str) -> None:
    none = market(asked)
    found = none.nearest()
    assert found is not None
    assert found.short == min(one.short for one in none.refused if one.short is not None)
    first = next(one for one in none.refused if one.short is not None)
    assert found != first
    assert nearest in found.nearest
    assert f"nearest, on {found.machines[0]}: {found.nearest}" in outline(none).verdict


def test_a_budget_buys_at_most_so_many_nodes_where_prices_are_unknown() -> None:
    assert outline(market(Asked(usd_per_hour=500))).verdict.startswith("at most ")


def test_flex_start_that_is_cheaper_by_the_hour_alone_is_said_in_one_line(found: Market) -> None:
    batch = market(BATCH)
    cheap, *others = (one for one in batch.offers if not one.is_bound)
    money = replace(cheap.plan.money, bill=free(cheap.plan.money.bill))
    waiting = replace(cheap, capacity="flex-start", plan=replace(cheap.plan, money=money))
    beside = replace(batch, offers=(cheap, *others, waiting))
    assert [sum("Flex-start" in str(one) for one in outline(it).body) for it in (batch, beside, found)] == [0, 1, 0]


def free(bill: Bill) -> Bill:
    """The same, for nothing an hour."""
    return replace(bill, items=tuple(replace(one, unit_price_usd=0.0) for one in bill.items))


def printed(report: Outline, width: int) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), report)
    return stream.getvalue()


def test_a_question_that_no_machine_answers_is_refused_before_any_is_asked() -> None:
    with pytest.raises(AskingError, match="--users, --requests-per-second"):
        market(Asked())


# One machine ----------------------------------------------------------------------------------------------------------


def test_the_articles_model_on_its_machine_keeps_its_profile() -> None:
    record = profile_facts("record")
    assert fitted(record, DEFAULT_MACHINE, named_workload("article")) == (record, "")


@pytest.mark.parametrize("machine", ["a3-highgpu-8g", "a3-ultragpu-8g", "a2-ultragpu-8g", "g4-standard-384"])
def test_ranks_times_tensor_parallelism_are_the_machines_gpus(machine: str) -> None:
    found, why = fitted(CHAT, MACHINES[machine], named_workload("article"), model_facts(LLAMA))
    shape = found.shape
    assert not why
    assert shape.data_parallel * shape.tensor_parallel == MACHINES[machine].gpus
    assert shape.http_processes == shape.data_parallel
    assert shape.tensor_parallel > 1


def test_options_of_another_architecture_are_left_out_and_parsers_are_the_programs() -> None:
    llama, _ = fitted(CHAT, MACHINES["a3-highgpu-8g"], named_workload("article"), model_facts(LLAMA))
    foreign = {
        "gdn-prefill-backend",
        "mamba-cache-mode",
        "speculative-config.method",
        "reasoning-parser",
        "language-model-only",
    }
    assert not foreign & set(llama.flags)
    changes = engine_changes(CHAT, llama)
    # What the program would drop with a warning is written; parsers are the program's to set.
    removed = {name for name, value in changes.items() if value is None}
    assert removed == {
        "attention-backend",
        "enable-prefix-caching",
        "gdn-prefill-backend",
        "speculative",
        "language-model-only",
    }
    assert not {"reasoning-parser", "tool-call-parser"} & changes.keys()
    assert changes["kv-cache-dtype"] == "auto"
    assert changes["tensor-parallel-size"] == llama.shape.tensor_parallel


def test_an_fp8_cache_stays_where_the_gpu_and_the_model_have_it() -> None:
    own = None
    kept = {
        machine: fitted(CHAT, MACHINES[machine], named_workload("article"), own)[0].shape.kv_cache_dtype
        for machine in ("a3-highgpu-1g", "a2-ultragpu-1g")
    }
    assert kept == {"a3-highgpu-1g": "fp8_e4m3", "a2-ultragpu-1g": "auto"}


@each_row(
    ("model", "by_0_18", "by_0_33"),
    [
        ("Qwen/Qwen3.5-35B-A3B", None, "triton"),
        ("Qwen/Qwen3.5-35B-A3B-FP8", "triton", "triton"),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", "flashinfer_cutlass", "flashinfer_cutlass"),
        ("openai/gpt-oss-20b", "triton", "triton"),
        ("zai-org/GLM-4.7-Flash", "triton", "triton"),
        ("google/gemma-4-26B-A4B-it", None, None),
        ("Qwen/Qwen3-32B", None, None),
    ],
)
def test_experts_on_b200_get_kernels_that_write_nothing(model: str, by_0_18: str | None, by_0_33: str | None) -> None:
    old, new = profile_facts("record"), CHAT
    for profile, machine, backend in (
        (old, "a4-highgpu-8g", by_0_18),
        (new, "a4-highgpu-8g", by_0_33),
        (new, "a4x-highgpu-4g", by_0_33),
        (new, "a3-ultragpu-8g", None),
    ):
        made, _ = fitted(profile, MACHINES[machine], named_workload("article"), model_facts(model))
        assert made.flags.get("moe-backend") == backend


def test_a_context_is_no_longer_than_the_models_and_a_release_that_is_too_old_is_replaced() -> None:
    code, _ = fitted(
        profile_facts("serve-code"), MACHINES["a3-highgpu-8g"], named_workload("article"), model_facts("Qwen/Qwen3-32B")
    )
    assert code.shape.max_model_len_tokens == CATALOGUE["Qwen/Qwen3-32B"].shape.context_tokens < 131_072
    newer = next(one for one in CATALOGUE.values() if one.min_vllm.startswith("0.19"))
    made = plan(question_of(Asked(users=8, machine="a4-highgpu-8g", model=newer.id, profile="record")))
    assert made.question.profile.engine_version == "0.33.0"
    assert any(newer.min_vllm in remark for remark in made.remarks)


def test_a_model_that_does_not_fit_says_by_how_much() -> None:
    with pytest.raises(NoFitError, match="does not fit one L4"):
        question_of(Asked(users=1, machine="g2-standard-12", model=LLAMA))


def test_a_model_is_of_the_catalogue_or_a_config_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "config.json"
    own.write_text(
        '{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,'
        '"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192}'
    )
    shape, size_gb = model_facts(str(own))
    assert shape.parameters == pytest.approx(8e9, rel=0.01)
    assert size_gb == pytest.approx(16, rel=0.02)
    question = question_of(Asked(users=8, machine="g2-standard-12", model=str(own)))
    assert plan(question).is_bound
    for wrong, why in (("no/such-model", "not in the catalogue"), (str(tmp_path / "none.json"), "no such file")):
        with pytest.raises(UnknownModelError, match=why):
            model_facts(wrong)
    with pytest.raises(UnknownModelError, match=r"did you mean Qwen/Qwen3\.5-4B\?"):
        model_facts("Qwen/Qwen3.5-4b")
    own.write_text('{"model_type": "mystery"}')
    with pytest.raises(UnknownModelError, match="model_type"):
        model_facts(str(own))


def test_every_model_of_the_catalogue_fits_some_machine() -> None:
    largest = ("a3-ultragpu-8g", "a4-highgpu-8g")
    for id_ in CATALOGUE:
        fitting = []
        for machine in largest:
            try:
                fitting.append(question_of(Asked(users=1, machine=machine, model=id_, capacity="spot")))
            except NoFitError:
                continue
        assert fitting or id_ == "moonshotai/Kimi-K2-Instruct", id_
