"""Profiles as plain data, read by the model as it reads the article's own runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts.engines import find
from facts.ledger import LedgerError
from facts.machines import B200, L4
from facts.models import CATALOGUE, of_the_article
from fleet.plan.from_settings import facts_of_stack
from fleet.plan.model.deployment import record_fleet
from fleet.plan.model.measured import PHASES
from fleet.plan.question.profiles import engine_shape, model_shape, profile_facts, profiles_for
from settings import profile_file
from tests.support.phases import PHASES as SETTINGS
from tests.support.rows import each_row
from tests.support.settings import make_settings


def test_the_record_is_the_fleet_that_the_model_was_fitted_to() -> None:
    assert profile_facts("record").shape == record_fleet(1).engine


@each_row("row", PHASES)
def test_a_phase_written_as_settings_is_the_engine_that_the_model_was_fitted_to(row: str) -> None:
    stack = make_settings(server={"replicas": 1, "engine": SETTINGS[row]})
    assert facts_of_stack(stack).shape == PHASES[row].engine


def test_a_profile_is_read_from_its_options() -> None:
    chat = profile_facts("serve-chat").shape
    assert chat.max_model_len_tokens == 8_192
    assert chat.max_num_seqs == 256
    assert chat.language_model_only
    assert chat.speculative_tokens == 1
    assert chat.estimate_cudagraphs
    assert profile_facts("tuned").shape.captured_tokens == 576


def test_options_left_out_are_vllms_own() -> None:
    plain = engine_shape({}, {}, find("0.18.1"), B200)
    assert plain.max_model_len_tokens == 262_144
    assert (plain.max_num_seqs, plain.max_num_batched_tokens) == (1_024, 8_192)
    assert (plain.data_parallel, plain.gpu_memory_utilization) == (1, 0.9)
    assert not plain.prefix_caching
    assert plain.kv_cache_dtype == "auto"
    assert engine_shape({"enforce-eager": True}, {}, find("0.18.1"), B200).captured_tokens == 0


def test_what_vllm_chooses_by_the_gpu_is_that_gpus() -> None:
    small = replace(profile_facts("record"), flags={}, gpu=L4).shape
    assert (small.max_num_seqs, small.max_num_batched_tokens) == (256, 2_048)


def test_the_profile_for_a_length_is_the_shortest_context_that_holds_it() -> None:
    assert [one.name for one in profiles_for(3_500)] == ["serve-chat", "serve-batch", "serve-code"]
    assert [one.name for one in profiles_for(8_193)] == ["serve-batch", "serve-code"]
    assert profiles_for(131_073) == ()


def test_models_are_told_apart_by_name_and_an_unknown_one_is_refused() -> None:
    assert model_shape("Qwen/Qwen3.5-27B-FP8") is of_the_article()
    assert model_shape("nvidia/Qwen3.5-397B-A17B-NVFP4") is CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape
    with pytest.raises(LookupError, match="meta/Llama"):
        model_shape("meta/Llama")


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(LedgerError, match="serve-chat"):
        profile_facts("nonsense")


def test_a_plan_names_the_key_that_a_profile_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    file = profile_file.document()
    monkeypatch.setattr(
        profile_file, "document", lambda: {**file, "profiles": {**file["profiles"], "untitled": {"over": "record"}}}
    )
    with pytest.raises(LedgerError, match="untitled: title is missing"):
        profile_facts("untitled")
