"""`fleet verify --answers`: engines that say the same, and engines that are wrong under load, after a hit, or always."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.verify import declared, questions
from fleet.verify.checks_traffic import answers
from fleet.verify.facts import Facts, Reply, Server, Told
from fleet.verify.judgement import LIKELIEST
from fleet.verify.verification import Asking, verify
from settings.stack import Settings
from tests.fleet.verify.stacks import (
    check_of,
    differing,
    in_state,
    name_of,
    node_of,
    served,
    settings_of,
    state_of,
)
from tests.support.rows import each_row
from tests.support.simulators.model_server.node import Faults, Pace


def _looked(settings: Settings, faults: Faults | None = None) -> Any:
    # Slow enough that a busy machine still has the other requests in flight beside the question.
    with served(node_of(settings, pace=Pace(fixed_s=0.005)), faults) as url:
        return verify(settings, "vllm-fleet", Asking(endpoint=url, answers=True))


def test_sound_servers_pass_and_hit_the_cache_when_asked_again(code: Settings) -> None:
    report = _looked(code)
    assert state_of(check_of(report, "answers")) == "passed"
    assert in_state(report, "error") == []


@each_row(
    "faults, moments",
    [
        (Faults(wrong_under_load=True), {"under load"}),
        (Faults(wrong_after_hit=True), {"under load"}),
        (Faults(wrong_answers=True), {"alone", "under load"}),
    ],
)
def test_a_wrong_answer_is_named_with_its_engine_and_moment(code: Settings, faults: Faults, moments: set[str]) -> None:
    check = check_of(_looked(code, faults), "answers")
    ranks = range(code.serving.engine.data_parallel_size)
    assert {name_of(each) for each in differing(check)} == {
        f"rank {rank} {moment}" for rank in ranks for moment in moments
    }


def test_without_the_flag_nothing_of_it_is_asked(code: Settings) -> None:
    with served(node_of(code)) as url:
        report = verify(code, "vllm-fleet", Asking(endpoint=url))
    assert "answers" not in {check[0].id for check in report.checks}


# By hand


def _reply(*tokens: int, text: str = "4711 it is", gap: float = 3.0) -> Reply:
    names = [f"token_id:{token}" for token in tokens]
    beside = {f"token_id:{token}": -0.1 - gap for token in range(20)}
    told = {"tokens": names, "top_logprobs": [{**beside, name: -0.1} for name in names]}
    return Reply(status=200, body={"choices": [{"text": text, "logprobs": told}]})


def _facts(*replies: Reply) -> Facts:
    server = Server(name="pod-1", health=Reply(status=200))
    told = tuple(Told(where="pod-1", name=f"rank {rank} alone", reply=reply) for rank, reply in enumerate(replies))
    return Facts(endpoint="", door=None, pods=(server,), told=told)


@each_row(
    "reply, state",
    [
        (_reply(1, 2, 3), "passed"),
        (_reply(1, 5, 9, gap=0.25), "passed"),
        (_reply(1, 5, 9), "error"),
        (_reply(*[4] * 12), "error"),
        (_reply(1, 2, 3, text="I do not know"), "error"),
        (Reply(status=200, body={"choices": [{"text": "x"}]}), "error"),
        (Reply(status=500), "error"),
        (Reply(trouble="no answer within 30 s"), "unknown"),
    ],
)
def test_the_third_of_three_engines(code: Settings, reply: Reply, state: str) -> None:
    usual = _reply(1, 2, 3, gap=0.25) if state == "passed" else _reply(1, 2, 3)
    check = answers(_facts(usual, usual, reply), code)
    assert state_of(check) == state
    assert [name_of(each) for each in differing(check)] == (["rank 2 alone"] if state == "error" else [])


@pytest.mark.parametrize("stack", ["dev", "spot", "gateway", "cud", "prod", "smoke", "batch"])
def test_every_stack_has_a_passage_that_fits(stack: str) -> None:
    settings = settings_of(stack)
    context = declared.context_tokens(settings)
    body = questions.needle("m", 100_000, context, "salt")
    assert body["prompt"].count(questions.NEEDLE) == 1
    sentences = body["prompt"].count("train")
    assert context is None or sentences * questions.SENTENCE_TOKENS[1] + questions.NEEDLE_TOKENS < context
    assert json.loads(json.dumps(body))["logprobs"] == LIKELIEST
