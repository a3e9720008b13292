"""`fleet verify --answers`: engines that say the same, and engines that are wrong under load, after a hit, or always."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fleet.verify import checks_answers, questions
from fleet.verify.ask_answers import passage_tokens
from fleet.verify.facts import Facts, Moment, Reply, Server, Told
from fleet.verify.judgement import LIKELIEST
from fleet.verify.verification import Asking, verify
from lab.simulators.model_server.node import Faults, Pace
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

WITH_TOOLS = ("answers", "needle", "tool-call")


def _looked(settings: Settings, faults: Faults | None = None) -> Any:
    # Slow enough that a busy machine still has the other clients' requests in flight beside the question.
    with served(node_of(settings, pace=Pace(fixed_s=0.005)), faults) as url:
        return verify(settings, "vllm-fleet", Asking(endpoint=url, seconds=40, answers=True))


@pytest.fixture(scope="module")
def chat() -> Settings:
    """A stack whose profile has a parser of tool calls and caches prefixes."""
    return settings_of("dev", profile="serve-code")


def test_sound_servers_pass_and_hit_the_cache_when_asked_again(chat: Settings) -> None:
    report = _looked(chat)
    assert [state_of(check_of(report, id_)) for id_ in WITH_TOOLS] == ["passed"] * 3
    assert in_state(report, "error") == []


@each_row(
    "faults, failing, moments",
    [
        (Faults(wrong_under_load=True), {"answers", "needle"}, {"under load"}),
        (Faults(wrong_after_hit=True), {"answers", "needle"}, {"asked again"}),
        (Faults(wrong_answers=True), {"needle"}, {"alone", "under load", "asked again"}),
    ],
)
def test_a_wrong_answer_is_named_with_its_engine_and_moment(
    chat: Settings, faults: Faults, failing: set[str], moments: set[str]
) -> None:
    report = _looked(chat, faults)
    assert {id_ for id_ in WITH_TOOLS if state_of(check_of(report, id_)) == "error"} == failing
    named = {name_of(each) for id_ in failing for each in differing(check_of(report, id_))}
    ranks = range(chat.serving.engine.data_parallel_size)
    assert named == {f"rank {rank} {moment}" for rank in ranks for moment in moments}


def test_tool_calls_that_stay_text_fail(chat: Settings) -> None:
    assert state_of(check_of(_looked(chat, Faults(tools_unparsed=True)), "tool-call")) == "error"


def test_without_the_flag_nothing_of_it_is_asked(chat: Settings) -> None:
    with served(node_of(chat)) as url:
        report = verify(chat, "vllm-fleet", Asking(endpoint=url, seconds=20))
    assert not {check[0].id for check in report.checks} & set(WITH_TOOLS)


# By hand


def _reply(*tokens: int, text: str = "4711 it is", gap: float = 3.0) -> Reply:
    names = [f"token_id:{token}" for token in tokens]
    beside = {f"token_id:{token}": -0.1 - gap for token in range(20)}
    told = {"tokens": names, "top_logprobs": [{**beside, name: -0.1} for name in names]}
    return Reply(status=200, body={"choices": [{"text": text, "logprobs": told}]})


def _facts(*told: tuple[int, Moment, Reply]) -> Facts:
    server = Server(name="pod-1", health=Reply(status=200))
    given = tuple(Told(where="pod-1", rank=rank, moment=moment, reply=reply) for rank, moment, reply in told)
    return Facts(endpoint="", door=None, pods=(server,), told=given)


LATE = Reply(trouble="no answer within 30 s")


@each_row(
    "reply, state",
    [
        (_reply(1, 2, 3), "passed"),
        (_reply(1, 5, 9, gap=0.25), "passed"),
        (_reply(1, 5, 9), "error"),
        (_reply(*[4] * 12), "error"),
        (Reply(status=200, body={"choices": [{"text": "x"}]}), "error"),
        (Reply(status=500), "error"),
        (LATE, "unknown"),
    ],
)
def test_the_third_of_three_engines(chat: Settings, reply: Reply, state: str) -> None:
    usual = _reply(1, 2, 3, gap=0.25) if state == "passed" else _reply(1, 2, 3)
    check = checks_answers.answers(_facts((0, "alone", usual), (1, "alone", usual), (2, "alone", reply)), chat)
    assert state_of(check) == state
    assert [name_of(each) for each in differing(check)] == (["rank 2 alone"] if state == "error" else [])


def _called(function: dict[str, Any] | None, **message: Any) -> Reply:
    calls = [] if function is None else [{"type": "function", "function": function}]
    finish = message.pop("finish", "tool_calls")
    choice = {"message": {"content": None, "tool_calls": calls, **message}, "finish_reason": finish}
    return Reply(status=200, body={"choices": [choice]})


@each_row(
    "reply, state",
    [
        (_called({"name": questions.TOOL, "arguments": '{"city": "Oslo"}'}), "passed"),
        (_called({"name": "get_time", "arguments": '{"city": "Oslo"}'}), "error"),
        (_called({"name": questions.TOOL, "arguments": '{"city": '}), "error"),
        (_called({"name": questions.TOOL, "arguments": "{}"}), "error"),
        (_called(None, content="<tool_call>{}", finish="length"), "error"),
        (_called(None, content="It is cold.", finish="stop"), "error"),
        (_called(None, content="Let me", finish="length"), "unknown"),
        (Reply(status=400), "error"),
        (LATE, "unknown"),
    ],
)
def test_a_tool_call_has_its_shape(chat: Settings, reply: Reply, state: str) -> None:
    assert state_of(checks_answers.tool_call(replace(_facts(), tool=reply), chat)) == state


@pytest.mark.parametrize("stack", ["dev", "spot", "gateway", "cud", "prod", "smoke", "batch"])
def test_every_stack_has_a_passage_that_fits(stack: str) -> None:
    settings = settings_of(stack)
    tokens = passage_tokens(settings)
    assert tokens is not None
    body = questions.needle("m", tokens, "salt")
    assert body["prompt"].count(questions.NEEDLE) == 1
    assert len(body["prompt"].split()) >= tokens
    assert json.loads(json.dumps(body))["logprobs"] == LIKELIEST
