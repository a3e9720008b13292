from __future__ import annotations

import pytest

from tests.policy.samples import NEEDS, found, only, server

CACHING = ("--enable-prefix-caching", "--mamba-cache-mode=align", "--mamba-block-size=8")
LONG = ("--max-model-len=8192", "--max-num-batched-tokens=16384")


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        (CACHING[:1], "--mamba-cache-mode and --mamba-block-size"),
        (CACHING[:2], "--mamba-block-size"),
        ((CACHING[0], CACHING[2]), "--mamba-cache-mode"),
    ],
)
def test_prefix_caching_of_a_hybrid_model_needs_both_flags(flags: tuple[str, ...], missing: str) -> None:
    message = only("hybrid-prefix-cache-flags", server(*flags))
    assert f"--enable-prefix-caching without {missing}\n" in message
    assert "ten-fold" in message


def test_with_both_flags_or_without_caching_nothing_is_missing() -> None:
    assert found("hybrid-prefix-cache-flags", server(*CACHING)) == []
    assert found("hybrid-prefix-cache-flags", server()) == []


def test_a_model_without_states_caches_by_default_and_needs_no_flags() -> None:
    assert found("hybrid-prefix-cache-flags", server(args=("meta-llama/Llama-3.1-8B-Instruct",))) == []


def test_a_block_size_without_caching_is_found() -> None:
    assert "--mamba-block-size=8 without" in only("mamba-flags-without-prefix-caching", server(CACHING[2]))
    assert only("mamba-flags-without-prefix-caching", server("--no-enable-prefix-caching", CACHING[2]))
    assert found("mamba-flags-without-prefix-caching", server(*CACHING)) == []
    assert found("mamba-flags-without-prefix-caching", server(CACHING[1])) == []


def test_caching_that_no_prompt_can_reach_is_found_with_the_length_that_could() -> None:
    message = only("prefix-cache-never-hits", server(*CACHING))
    assert "with --max-model-len=2560, and no prompt below 3169 tokens can hit" in message
    assert "a cache block of this model is 1584 tokens" in message
    assert "--max-model-len=3169 and more" in message


@pytest.mark.parametrize(("length", "hits"), [(3168, False), (3169, True)])
def test_the_shortest_length_that_hits_is_exact(length: int, hits: bool) -> None:
    subject = server(*CACHING, f"--max-model-len={length}")
    assert (found("prefix-cache-never-hits", subject) == []) is hits


def test_without_drafts_one_block_is_enough() -> None:
    plain = server(*CACHING, without=("speculative-config",))
    assert found("prefix-cache-never-hits", plain) == []
    short = server(*CACHING, "--max-model-len=1568", without=("speculative-config",))
    assert "no prompt below 1569 tokens" in only("prefix-cache-never-hits", short)


def test_the_models_own_context_is_long_enough() -> None:
    assert found("prefix-cache-never-hits", server(*CACHING, without=("max-model-len",))) == []
    assert found("prefix-cache-never-hits", server(*CACHING, "--max-model-len=auto")) == []


def test_nothing_is_said_of_a_hybrid_model_whose_layers_are_not_known() -> None:
    other = server(*CACHING, args=("/weights/Qwen/Qwen3.5-9B", *CACHING, "--max-model-len=512"))
    assert found("prefix-cache-never-hits", other) == []


def test_fewer_sequences_than_requests_in_flight_are_found() -> None:
    message = only("sequences-below-load", server("--max-num-seqs=128"))
    assert "--max-num-seqs is 128 for each of 8 engine(s), 1024 in all, and 2000 requests are in flight" in message
    assert "Fix: --max-num-seqs=250" in message
    assert found("sequences-below-load", server("--max-num-seqs=250")) == []


def test_vllms_own_number_of_sequences_counts_where_none_is_written() -> None:
    assert found("sequences-below-load", server(without=("max-num-seqs",))) == []
    busy = server(without=("max-num-seqs", "data-parallel-size"))
    assert "--max-num-seqs is 1024 for each of 1 engine(s)" in only("sequences-below-load", busy)


def test_without_a_declared_load_nothing_is_said() -> None:
    assert found("sequences-below-load", server("--max-num-seqs=1", annotations={})) == []


def test_a_batch_smaller_than_its_sequences_is_found() -> None:
    assert "is 512, --max-num-seqs is 1024" in only("batch-below-sequences", server("--max-num-batched-tokens=512"))
    assert found("batch-below-sequences", server("--max-num-batched-tokens=1024")) == []
    assert only("batch-below-sequences", server("--max-num-seqs=9000", without=("max-num-batched-tokens",)))


def test_a_batch_smaller_than_a_cache_block_is_found() -> None:
    small = server(*CACHING, "--max-num-batched-tokens=1583")
    assert "below one cache block of 1584 tokens" in only("block-above-batch", small)
    assert found("block-above-batch", server(*CACHING, "--max-num-batched-tokens=1584")) == []
    assert found("block-above-batch", server("--max-num-batched-tokens=1583")) == []


def test_more_sequences_than_states_are_an_advice_until_the_release_refuses_them() -> None:
    many = server("--max-num-seqs=8192")
    assert "about 2364 recurrent states fit one GPU" in only("max-num-seqs-above-state", many)
    assert found("max-num-seqs-refused", many) == []
    later = server("--max-num-seqs=8192", image="vllm/vllm-openai:v0.20.2")
    assert "vLLM 0.20.2 refused" in only("max-num-seqs-refused", later)


@pytest.mark.parametrize(("sequences", "advised", "refused"), [(2364, 0, 0), (2365, 1, 0), (2600, 1, 0), (2601, 1, 1)])
def test_an_estimate_refuses_only_with_a_margin(sequences: int, advised: int, refused: int) -> None:
    subject = server(f"--max-num-seqs={sequences}", image="vllm/vllm-openai:v0.20.2")
    assert len(found("max-num-seqs-above-state", subject)) == advised
    assert len(found("max-num-seqs-refused", subject)) == refused


def test_states_are_not_counted_where_the_room_is_not_known() -> None:
    for subject in (
        server("--max-num-seqs=8192", "-tp=2"),
        server("--max-num-seqs=8192", selector={"cloud.google.com/gke-accelerator": "nvidia-l4"}),
        server(args=("/weights/Qwen/Qwen3.5-27B", "--max-num-seqs=8192")),
        server(without=("max-num-seqs",)),
    ):
        assert found("max-num-seqs-above-state", subject) == []


def test_a_context_below_the_need_is_found() -> None:
    assert "is 1024 and requests need up to 1536" in only("context-below-need", server("--max-model-len=1024"))
    assert found("context-below-need", server("--max-model-len=1536")) == []


@pytest.mark.parametrize(("flags", "times"), [(("--max-model-len=131072",), 85), (("--max-model-len=16k",), 10)])
def test_a_context_far_above_the_need_is_found(flags: tuple[str, ...], times: int) -> None:
    message = only("context-far-above-need", server(*flags))
    assert f"{times} times the 1536 tokens" in message
    assert "74,848 tok/s against 85,509 at 4,096" in message
    assert "Fix: --max-model-len=1536" in message


def test_the_models_own_context_counts_where_none_is_written() -> None:
    assert "is 262144, 171 times" in only("context-far-above-need", server(without=("max-model-len",)))


@pytest.mark.parametrize(("length", "far"), [(6144, False), (6145, True)])
def test_far_is_four_times_the_need(length: int, far: bool) -> None:
    assert bool(found("context-far-above-need", server(f"--max-model-len={length}"))) is far


def test_a_team_sets_its_own_slack() -> None:
    assert found("context-far-above-need", server(*LONG), slack=6.0) == []
    assert only("context-far-above-need", server(*LONG), slack=5.0)


def test_without_a_declared_need_no_context_is_judged() -> None:
    for need in ({}, {"vllm-fleet.dev/context-tokens": "long"}):
        assert found("context-far-above-need", server("--max-model-len=131072", annotations=need)) == []
        assert found("context-below-need", server("--max-model-len=1", annotations=need)) == []
    assert "vllm-fleet.dev/context-tokens" in NEEDS
