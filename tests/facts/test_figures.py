"""Tests of which fleet may show which published figure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import figures, ledger
from facts.engines import Scalar
from facts.figures import ServingShape, match, published
from facts.ledger import LedgerError
from settings.derived.drain import mean_request_seconds
from tests.support.rows import each_row

ARTICLE_FLAGS: Mapping[str, Scalar] = {
    "data-parallel-size": 8,
    "max-model-len": 2560,
    "max-num-batched-tokens": 16384,
    "kv-cache-dtype": "fp8_e4m3",
    "gpu-memory-utilization": 0.92,
    "enable-prefix-caching": True,
    "enable-chunked-prefill": True,
    "attention-backend": "FLASHINFER",
    "optimization-level": 3,
    "speculative-config": '{"method":"mtp","num_speculative_tokens":1}',
}
ARTICLE = ServingShape(
    model="Qwen/Qwen3.5-27B-FP8",
    engine_version="0.18.0",
    machine_type="a4-highgpu-8g",
    replicas=12,
    gpus_per_replica=8,
    flags=ARTICLE_FLAGS,
    env={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"},
    routing="cluster-ip",
    workload="article",
)
RECORD = replace(
    ARTICLE,
    flags={
        **ARTICLE_FLAGS,
        "mamba-cache-mode": "align",
        "mamba-block-size": 8,
        "model": "/models/qwen3.5-27b-fp8",
        "served-model-name": "Qwen/Qwen3.5-27B-FP8",
    },
)


def with_flags(shape: ServingShape, **flags: Scalar) -> ServingShape:
    return replace(shape, flags={**shape.flags, **{name.replace("_", "-"): value for name, value in flags.items()}})


def test_the_articles_own_shape_is_exact() -> None:
    answer = match(ARTICLE)
    assert answer.kind == "exact"
    assert answer.differences == ()
    assert answer.figure is not None
    assert answer.figure.total_tokens_per_s == 1_103_941
    assert answer.figure.label == "published, vLLM 0.18.0"


def test_the_record_is_equivalent_and_every_difference_is_argued() -> None:
    answer = match(RECORD)
    assert answer.kind == "equivalent"
    assert [difference.field for difference in answer.differences] == [
        "mamba-block-size",
        "mamba-cache-mode",
        "model",
        "served-model-name",
    ]
    assert all(difference.argument for difference in answer.differences)


@pytest.mark.parametrize(
    ("nodes", "total", "tpot", "ttft"),
    [
        (1, 95_317, 44, 8065),
        (2, 190_000, 47, 6744),
        (4, 376_074, 46, 7331),
        (8, 740_192, 46, 5580),
        (12, 1_103_941, 46, 5600),
    ],
)
def test_each_published_node_count_shows_its_own_row(nodes: int, total: int, tpot: int, ttft: int) -> None:
    figure = match(replace(RECORD, replicas=nodes)).figure
    assert figure is not None
    assert (figure.total_tokens_per_s, figure.tpot_median_ms, figure.ttft_median_ms) == (total, tpot, ttft)
    assert figure.id == f"cluster_ip.nodes-{nodes}"


@pytest.mark.parametrize(("nodes", "total"), [(2, 131_303), (4, 245_009), (8, 469_433)])
def test_the_gateway_has_rows_of_its_own(nodes: int, total: int) -> None:
    answer = match(replace(RECORD, replicas=nodes, routing="inference-gateway"))
    assert answer.kind == "equivalent"
    assert answer.figure is not None
    assert answer.figure.total_tokens_per_s == total


@each_row(
    ("nodes", "routing"),
    [
        *((nodes, "cluster-ip") for nodes in (0, 3, 5, 11, 13, 1000)),
        (1, "inference-gateway"),
        (12, "inference-gateway"),
    ],
)
def test_any_other_node_count_has_no_figure_and_nothing_is_interpolated(nodes: int, routing: figures.Routing) -> None:
    answer = match(replace(RECORD, replicas=nodes, routing=routing))
    assert (answer.kind, answer.figure) == ("unproven", None)


def test_a_model_nobody_measured_shows_no_figure_of_another() -> None:
    answer = match(replace(RECORD, model="Qwen/Qwen3.5-122B-A10B"))
    assert answer.figure is None


@each_row(
    ("shape", "field"),
    [
        (with_flags(RECORD, max_model_len=8192), "max-model-len"),
        (with_flags(RECORD, api_server_count=8), "api-server-count"),
        (with_flags(RECORD, gpu_memory_utilization=0.9), "gpu-memory-utilization"),
        (with_flags(RECORD, enable_prefix_caching=False), "enable-prefix-caching"),
        (with_flags(RECORD, max_num_seqs=64), "max-num-seqs"),
        (with_flags(RECORD, max_cudagraph_capture_size=1024), "max-cudagraph-capture-size"),
        (with_flags(RECORD, language_model_only=True), "language-model-only"),
        (replace(RECORD, engine_version="0.18.1"), "engine_version"),
        (replace(RECORD, engine_version="0.33.0"), "engine_version"),
        (replace(RECORD, env={**RECORD.env, "VLLM_USE_DEEP_GEMM": "0"}), "env VLLM_USE_DEEP_GEMM"),
        (replace(RECORD, workload="vllm-1024-512"), "workload"),
        (replace(RECORD, machine_type="a3-ultragpu-8g"), "machine_type"),
        (replace(RECORD, env={}), "env VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
        (replace(RECORD, env={**RECORD.env, "NCCL_DEBUG": "INFO"}), "env NCCL_DEBUG"),
    ],
)
def test_a_difference_nobody_argued_leaves_the_fleet_unproven_and_is_named(shape: ServingShape, field: str) -> None:
    answer = match(shape)
    assert answer.kind == "unproven"
    assert [difference.field for difference in answer.unargued] == [field]
    assert answer.figure is not None
    assert answer.figure.label == "published, vLLM 0.18.0"


def test_the_8192_sequences_of_the_prose_are_not_the_records_and_the_default_is() -> None:
    (difference,) = match(with_flags(RECORD, max_num_seqs=8192)).unargued
    assert (difference.field, difference.published, difference.ours) == ("max-num-seqs", None, 8192)
    assert match(with_flags(RECORD, max_num_seqs=1024)).kind == "equivalent"


@pytest.mark.parametrize(
    "flags",
    [
        {"--data_parallel_size": "8", "-O": "3", "no-enable-prefix-caching": False},
        {"dp": 8, "O3-is-not-a-name": None, "attention-backend": "flashinfer"},
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}},
        {"speculative-config.method": "mtp", "speculative-config.num_speculative_tokens": "1"},
        {"max-num-batched-tokens": "16K", "gpu-memory-utilization": "0.92"},
    ],
)
def test_another_spelling_of_the_same_option_is_no_difference(flags: Mapping[str, object]) -> None:
    names = {"dp": "data-parallel-size", "--data_parallel_size": "data-parallel-size", "-O": "optimization-level"}
    names["no-enable-prefix-caching"] = "enable-prefix-caching"
    replaced = {names.get(name, name.partition(".")[0]) for name in flags}
    kept = {name: value for name, value in ARTICLE_FLAGS.items() if name not in replaced}
    assert match(replace(ARTICLE, flags={**kept, **flags})).kind == "exact"  # type: ignore[dict-item]


def test_16k_and_16K_are_different_numbers_as_in_vllm() -> None:
    answer = match(with_flags(ARTICLE, max_num_batched_tokens="16k"))
    assert answer.unargued[0].ours == 16_000


def test_defaults_that_the_article_repeats_may_be_left_out() -> None:
    redundant = ("attention-backend", "enable-chunked-prefill", "optimization-level")
    flags = {name: value for name, value in ARTICLE_FLAGS.items() if name not in redundant}
    answer = match(replace(ARTICLE, flags=flags))
    assert answer.kind == "equivalent"
    assert [difference.field for difference in answer.differences] == sorted(redundant)


def test_one_tp8_node_is_held_against_the_tp8_phase_but_never_proven() -> None:
    flags: dict[str, Scalar] = {
        "tensor-parallel-size": 8,
        "speculative-config.method": "mtp",
        "speculative-config.num_speculative_tokens": 1,
        "mamba-cache-mode": "align",
        "mamba-block-size": 8,
        "max-num-seqs": 512,
    }
    answer = match(replace(RECORD, replicas=1, flags=flags, env={}))
    assert answer.figure is not None
    assert answer.figure.id == "phases.tp8"
    assert answer.kind == "unproven"
    assert figures.SETTINGS_LEFT_OPEN in answer.reason


def test_runs_that_gave_no_rate_are_never_matched() -> None:
    answer = match(replace(RECORD, replicas=1, flags={"data-parallel-size": 8, "gpu-memory-utilization": 0.95}))
    assert answer.figure is not None
    assert answer.figure.total_tokens_per_s is not None


def test_efficiency_as_published_follows_from_the_totals() -> None:
    for file in ("cluster_ip", "cluster_ip_rerun"):
        one = published(f"{file}.nodes-1").total_tokens_per_s
        assert one is not None
        for figure in figures.all_figures():
            if figure.id.startswith(f"{file}.") and figure.total_tokens_per_s is not None:
                derived = 100 * figure.total_tokens_per_s / (figure.shape.replicas * one)
                assert figure.scaling_efficiency_percent == pytest.approx(derived, abs=0.06), figure.id


def test_gateway_overhead_as_published_follows_from_the_totals() -> None:
    for nodes in figures.published_nodes("inference-gateway"):
        direct = published(f"cluster_ip.nodes-{nodes}").total_tokens_per_s
        behind = published(f"gateway.nodes-{nodes}").total_tokens_per_s
        assert direct is not None
        assert behind is not None
        overhead = ledger.entry("gateway", "figures", f"nodes-{nodes}")["overhead_percent"]
        assert overhead == pytest.approx(100 * (1 - behind / direct), abs=0.5)


def test_published_requests_and_totals_give_the_articles_tokens_a_request() -> None:
    tokens = ledger.entry("workloads", "workloads", "article")["total_tokens_per_request"]
    for row in ledger.section("users", "figures").values():
        assert row["total_tokens_per_s"] / row["requests_per_s"] == pytest.approx(tokens, rel=0.01)
        direct = published(f"cluster_ip.nodes-{row['replicas']}")
        assert row["total_tokens_per_s"] == direct.total_tokens_per_s


def test_requests_in_flight_over_requests_a_second_are_the_records_mean_request() -> None:
    """Little's law, within the article's roundings."""
    for row in ledger.section("users", "figures").values():
        assert row["concurrent_users"] / row["requests_per_s"] == pytest.approx(mean_request_seconds(), rel=0.05)


def test_output_is_a_third_where_the_workload_is_stated_and_unknown_elsewhere() -> None:
    record = published("cluster_ip.nodes-12")
    assert record.output_tokens_per_s == 367_980
    assert published("phases.tp8").output_tokens_per_s is None
    assert record.total_tokens_per_s is not None
    assert record.total_tokens_per_s / record.shape.replicas == pytest.approx(91_995, abs=0.1)


def test_every_figure_has_a_source_a_title_and_a_rate_or_an_outcome() -> None:
    for figure in figures.all_figures():
        assert figure.title
        assert figure.source.id == "article"
        assert (figure.total_tokens_per_s is None) == (figure.outcome is not None), figure.id


def test_an_unknown_figure_is_refused_with_the_rows_there_are() -> None:
    with pytest.raises(LedgerError, match=r"cluster_ip.yaml has no entry 'nodes-3'.*nodes-12"):
        published("cluster_ip.nodes-3")
    with pytest.raises(LedgerError, match="the ledger has no file 'cluster-ip'"):
        published("cluster-ip.nodes-1")


values = st.one_of(st.booleans(), st.integers(-10, 10**6), st.floats(allow_nan=False), st.text(max_size=20))


@settings(deadline=None)  # the first example reads files
@given(
    replicas=st.integers(0, 20),
    flags=st.dictionaries(st.sampled_from([*ARTICLE_FLAGS, "api-server-count", "x.y", ""]), values, max_size=4),
    routing=st.sampled_from(["cluster-ip", "inference-gateway"]),
)
def test_no_shape_gives_a_traceback_and_proven_means_everything_is_argued(
    replicas: int, flags: dict[str, Scalar], routing: figures.Routing
) -> None:
    shape = replace(ARTICLE, replicas=replicas, flags={**ARTICLE_FLAGS, **flags}, routing=routing)
    answer = match(shape)
    assert answer.reason
    if answer.kind != "unproven":
        assert answer.figure is not None
        assert answer.figure.shape.replicas == replicas
        assert answer.unargued == ()


_MEASURE = """
import gc, time
import yaml, json, dataclasses, pathlib, re  # a preview has these loaded when it asks
from tests.processor import unit_seconds
gc.disable()
unit = unit_seconds()
start = time.process_time()
from facts import cost, figures
{shape}
assert figures.match(shape).kind == "equivalent"
assert cost.bill(cost.FleetShape(nodes=12, region="us-east4", capacity="spot")).usd_per_hour_known > 391
print((time.process_time() - start) / unit)
"""


@pytest.mark.slow
def test_one_figure_and_one_bill_cost_little_in_a_process_that_reads_yaml() -> None:
    """In units of `tests.processor`; measured: 3.2 to 4.3, of an idle core 20 ms."""
    source = f"from facts.figures import ServingShape\nshape = {RECORD!r}"
    program = _MEASURE.format(shape=source)
    root = Path(figures.__file__).parents[1]
    runs = [
        float(subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True).stdout)
        for _ in range(9)
    ]
    assert min(runs) < 8


def test_facts_import_nothing_heavy_and_no_other_room() -> None:
    program = (
        "import sys; from facts import cost, disks, figures, memory, ranges, sizing, time_to_serve;"
        "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    root = Path(figures.__file__).parents[1]
    loaded = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    forbidden = {"pulumi", "pydantic", "yaml", "settings", "infra", "workloads", "fleet"}
    assert forbidden & set(loaded.stdout.split()) == set()
