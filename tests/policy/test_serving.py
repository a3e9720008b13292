from __future__ import annotations

from typing import Any

import pytest

from tests.policy.samples import found, only, server

LARGE = "/weights/nvidia/Qwen3.5-397B-A17B-NVFP4"
BF16 = "--kv-cache-dtype=bfloat16"
UNCOUNTED = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}


def speculating(drafts: int, method: str = "mtp") -> str:
    return f'--speculative-config={{"method":"{method}","num_speculative_tokens":{drafts}}}'


def at(share: float, *flags: str, **more: Any) -> Any:
    return server(f"--gpu-memory-utilization={share}", *flags, **more)


def test_one_engine_over_eight_gpus_is_found_with_both_figures() -> None:
    message = only("tp8-on-one-gpu-model", server("-tp", "8", without=("data-parallel-size",)))
    assert message.startswith("Deployment server, container vllm: --tensor-parallel-size is 8")
    assert "fits one B200 and leaves 122 GiB for its cache" in message
    assert "22,300 tok/s on a node with TP=8 against 95,317" in message
    assert "Fix: --data-parallel-size=8 and --tensor-parallel-size=1" in message


def test_eight_engines_of_one_gpu_are_right() -> None:
    assert found("tp8-on-one-gpu-model", server()) == []


def test_a_model_that_needs_the_gpus_is_split_rightly() -> None:
    assert found("tp8-on-one-gpu-model", server(args=(LARGE, "-tp=8"))) == []
    # Nothing is left for a cache at a share this small.
    assert found("tp8-on-one-gpu-model", server("-tp=8", "--gpu-memory-utilization=0.18")) == []


def test_a_team_tells_the_size_of_its_own_model() -> None:
    own = server(args=("org/own-13b", "-tp=2"))
    assert found("tp8-on-one-gpu-model", own) == []
    assert "own-13b (26 GB) fits one B200" in only("tp8-on-one-gpu-model", own, weightsGb={"own-13b": 26.0})
    assert found("tp8-on-one-gpu-model", own, weightsGb={"own-13b": 300.0}) == []


def test_nothing_is_said_of_gpus_whose_memory_is_not_known() -> None:
    other = server("-tp=8", selector={"cloud.google.com/gke-accelerator": "nvidia-l4"})
    assert found("tp8-on-one-gpu-model", other) == []


def test_expert_parallelism_of_a_dense_model_is_found() -> None:
    assert "has no experts" in only("expert-parallel-on-dense-model", server("--enable-expert-parallel"))
    assert found("expert-parallel-on-dense-model", server("--no-enable-expert-parallel")) == []
    assert found("expert-parallel-on-dense-model", server(args=(LARGE, "-tp=8", "-ep"))) == []


@pytest.mark.parametrize(("drafts", "rules"), [(1, ()), (2, ("two",)), (3, ("many",)), (5, ("many",))])
def test_draft_tokens_are_judged_by_what_they_did(drafts: int, rules: tuple[str, ...]) -> None:
    subject = server(speculating(drafts))
    assert bool(found("mtp-two-is-slower", subject)) is ("two" in rules)
    assert bool(found("mtp-above-one", subject)) is ("many" in rules)


def test_draft_tokens_name_their_figures() -> None:
    assert "90,567 tok/s against 96,023" in only("mtp-two-is-slower", server(speculating(2)))
    crash = only("mtp-above-one", server(speculating(5)))
    assert "num_speculative_tokens is 5" in crash
    assert "cudaErrorIllegalAddress" in crash
    assert "84.7 %" in crash


def test_other_drafts_and_other_families_are_not_judged_by_these_figures() -> None:
    assert found("mtp-above-one", server(speculating(8, method="ngram"))) == []
    assert found("mtp-above-one", server(args=("deepseek-ai/DeepSeek-V3", speculating(3)))) == []


def test_a_team_that_measured_otherwise_raises_the_drafts() -> None:
    assert found("mtp-above-one", server(speculating(3)), mostTokens=3.0) == []


def test_a_crowded_bf16_cache_is_found() -> None:
    message = only("utilisation-with-mtp", at(0.95, BF16))
    assert "--gpu-memory-utilization is 0.95 with speculation and a bfloat16 cache" in message
    assert "908 requests failed" in message


def test_a_crowded_fp8_cache_with_uncounted_graphs_is_found() -> None:
    assert "CUDA graphs that nobody counts" in only("utilisation-with-mtp", at(0.95, env=UNCOUNTED))


def test_a_crowded_fp8_cache_with_counted_graphs_only_gains_nothing() -> None:
    assert found("utilisation-with-mtp", at(0.95)) == []
    assert "95,391 tok/s against 96,023" in only("utilisation-without-gain", at(0.95))
    assert found("utilisation-without-gain", at(0.94)) == []


def test_without_speculation_095_is_no_crowd() -> None:
    plain = at(0.95, without=("speculative-config",))
    assert found("utilisation-with-mtp", plain) == []
    assert found("utilisation-without-gain", plain) == []


def test_uncounted_graphs_are_found_from_092_on() -> None:
    assert "ESTIMATE_CUDAGRAPHS is not 1" in only("cudagraph-estimate-unset", at(0.92, env=UNCOUNTED))
    assert only("cudagraph-estimate-unset", at(0.92, env={}))
    assert found("cudagraph-estimate-unset", at(0.91, env=UNCOUNTED)) == []
    assert found("cudagraph-estimate-unset", at(0.92)) == []
    assert found("cudagraph-estimate-unset", at(0.92, "--enforce-eager", env=UNCOUNTED)) == []
    assert only("cudagraph-estimate-unset", at(0.9, env={}), fromUtilisation=0.9)


def test_a_release_that_counts_graphs_by_itself_needs_no_variable() -> None:
    later = at(0.92, env={}, image="vllm/vllm-openai:v0.19.0")
    assert found("cudagraph-estimate-unset", later) == []
    assert only("cudagraph-estimate-unset", at(0.92, env=UNCOUNTED, image="vllm/vllm-openai:v0.19.0"))


def test_one_slip_is_told_once() -> None:
    crowded = at(0.95, env=UNCOUNTED)
    assert found("cudagraph-estimate-unset", crowded) == []
    assert len(found("utilisation-with-mtp", crowded)) == 1


def test_a_server_of_another_kind_of_object_is_judged_alike() -> None:
    assert only("mtp-two-is-slower", server(speculating(2), kind="StatefulSet"))
