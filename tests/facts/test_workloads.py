"""Tests of the named workloads and of what drafts gain on them."""

from __future__ import annotations

from math import ceil, floor

import pytest

from facts import ledger
from facts.ledger import LedgerError
from facts.workloads import (
    STAND_IN_WORKLOAD,
    Lengths,
    Workload,
    countable_name,
    draft_acceptance,
    named_workload,
    tokens_per_step,
    workloads_with_lengths,
)


@pytest.mark.parametrize(
    ("shortest", "answer", "shared"), [(5, 0, 0), (5, 1, 6)], ids=["no answer", "prefix longer than a prompt"]
)
def test_a_workload_that_cannot_be_is_refused(shortest: int, answer: int, shared: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Workload(
            input_tokens=Lengths.exactly(shortest), output_tokens=Lengths.exactly(answer), shared_prefix_tokens=shared
        )


def test_lengths_ascend() -> None:
    with pytest.raises(ValueError, match="2, 1, 3"):
        Lengths(min=2, mean=1, max=3)


def test_the_article_is_a_workload_by_name_and_an_unknown_name_is_refused() -> None:
    article = named_workload("article")
    assert (article.tokens_per_request, article.longest_request_tokens) == (1152, 1536)
    with pytest.raises(LedgerError, match=r"no entry 'articel'.*article"):
        named_workload("articel")


def test_a_workload_of_a_file_has_no_lengths_to_count_with() -> None:
    assert workloads_with_lengths() == ("article", "vllm-1024-512", "shared-prefix-512")
    for name in ("sharegpt", "trace"):
        assert countable_name(name) == STAND_IN_WORKLOAD
        with pytest.raises(LedgerError, match=f"'{name}' has lengths from a file.*shared-prefix-512"):
            named_workload(name)


def test_a_shared_prefix_counts_as_one() -> None:
    shared = named_workload("shared-prefix-512")
    assert (shared.shared_prefix_tokens, shared.tokens_per_request, shared.longest_request_tokens) == (512, 1280, 1536)


@pytest.mark.parametrize("name", workloads_with_lengths())
def test_the_lengths_of_a_workload_are_those_that_vllm_draws_from_its_options(name: str) -> None:
    # Source: RandomDataset.get_sampling_params of vLLM 0.18.1, for a tokenizer that adds no special tokens.
    entry = ledger.entry("workloads", "workloads", name)
    options = entry["bench_0_18_1"]
    ratio, prefix = options["random-range-ratio"], options.get("random-prefix-len", 0)
    for asked, lengths, before in (
        (options["random-input-len"], entry["input_tokens"], prefix),
        (options["random-output-len"], entry["output_tokens"], 0),
    ):
        drawn = (before + floor(asked * (1 - ratio)), before + asked, before + ceil(asked * (1 + ratio)))
        assert drawn == (lengths["min"], lengths["mean"], lengths["max"])
    mean = entry["input_tokens"]["mean"] + entry["output_tokens"]["mean"]
    assert entry["total_tokens_per_request"] == mean
    assert entry["output_share"] == pytest.approx(entry["output_tokens"]["mean"] / mean)
    assert entry["longest_request_tokens"] == entry["input_tokens"]["max"] + entry["output_tokens"]["max"]
    assert entry.get("shared_prefix_tokens", 0) == prefix


def test_a_draft_token_accepted_at_90_percent_gives_19_tokens_a_step() -> None:
    assert draft_acceptance() == (0.9, 0.624, 0.524, 0.469, 0.438)
    assert tokens_per_step(1) == pytest.approx(1.9)
    assert tokens_per_step(0) == 1
    assert tokens_per_step(7) - tokens_per_step(6) == pytest.approx(draft_acceptance()[-1])
