"""A server that is only busy, and a look whose time was up: neither is a defect of the stack, and neither passes in silence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.clients.metrics_text import MetricsText, parse
from fleet.verify import checks_service, checks_traffic
from fleet.verify.facts import OUT_OF_TIME, Burst, Chat, Facts, Reply, Server, Twice
from fleet.verify.verification import Asking, verify
from lab.simulators.model_server.node import Pace
from settings.stack import Settings
from tests.fleet.verify.stacks import check_of, in_state, node_of, said_in, served, state_of

LATE = "no answer within 12 s"


def test_a_command_whose_time_is_up_blames_nobody_and_passes_nothing_that_it_did_not_see(cud: Settings) -> None:
    """Engines that take an hour for a step, and a second to look."""
    with served(node_of(cud, pace=Pace(fixed_s=3_600))) as url:
        report = verify(cud, "vllm-fleet", Asking(endpoint=url, seconds=1.0))
    assert in_state(report, "error") == []
    for id_ in ("completion", "reasoning", "ranks", "speculation"):
        assert state_of(check_of(report, id_)) == "unknown", check_of(report, id_)


# By hand


def _tokens(*counts: int) -> MetricsText:
    return parse("".join(f'vllm:generation_tokens_total{{engine="{n}"}} {c}\n' for n, c in enumerate(counts)))


def _burst(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "asked": 32,
        "answered": 32,
        "troubles": (),
        "seconds": 1.0,
        "before": _tokens(*[0] * 8),
        "after": _tokens(*[9] * 8),
    }
    server = Server(name="pod-1", health=Reply(status=200), burst=Burst(**{**given, **changes}))
    return Facts(endpoint="", door=None, pods=(server,))


def test_requests_that_wait_behind_others_are_said_and_fail_nothing(cud: Settings) -> None:
    check = checks_traffic.ranks(_burst(answered=20, late=12, troubles=(LATE,)), cud)
    assert (state_of(check), len(check)) == ("passed", 1)
    assert re.search(r"\b20 of 32\b.*\b12\b", said_in(check))


@pytest.mark.parametrize(
    "changes",
    [
        {"answered": 0, "late": 32, "troubles": (LATE,)},
        {"answered": 20, "late": 8, "troubles": (LATE, "HTTP 500")},
        {"answered": 28, "late": 4, "troubles": (LATE,), "after": _tokens(9, 9, 9, 0, 9, 9, 9, 9)},
    ],
    ids=["nobody answered", "some were refused", "a rank stood still"],
)
def test_what_no_load_explains_still_fails(cud: Settings, changes: dict[str, Any]) -> None:
    assert state_of(checks_traffic.ranks(_burst(**changes), cud)) == "error"


@pytest.mark.parametrize(
    "changes", [{"answered": 3, "late": 29, "after": _tokens(9, 9, 0, 0, 0, 0, 0, 0)}, {"answered": 0, "late": 32}]
)
def test_a_burst_that_was_cut_short_proves_nothing(cud: Settings, changes: dict[str, Any]) -> None:
    check = checks_traffic.ranks(_burst(**changes, troubles=(OUT_OF_TIME,), cut_short=True), cud)
    assert state_of(check) == "unknown"
    assert OUT_OF_TIME in said_in(check)


def _chats(*chats: Chat) -> Facts:
    door = Server(name="endpoint", health=Reply(status=200))
    return Facts(endpoint="http://127.0.0.1:1", door=door, chats=chats, chat_through="endpoint")


def _chat(*, stream: bool, **changes: Any) -> Chat:
    return Chat(**{"stream": stream, "thinking": None, "asked_tokens": 100, "status": 200, **changes})


def test_a_whole_answer_that_is_late_beside_a_stream_that_came_is_a_loaded_servers() -> None:
    late = "no answer within 20 s"
    facts = _chats(_chat(stream=False, trouble=late), _chat(stream=True, content="17 plus", trouble=late))
    check = checks_service.completion(facts)
    assert state_of(check) == "passed"
    assert f"whole answer: {late}" in said_in(check)


@pytest.mark.parametrize(
    "chats",
    [
        (_chat(stream=False, trouble="no answer within 20 s"), _chat(stream=True, trouble="no answer within 20 s")),
        (
            _chat(stream=False, trouble="HTTP 500"),
            _chat(stream=True, content="17 plus", trouble="no answer within 20 s"),
        ),
    ],
    ids=["no word in twenty seconds", "refused"],
)
def test_no_word_at_all_and_a_refusal_still_fail(chats: tuple[Chat, ...]) -> None:
    assert state_of(checks_service.completion(_chats(*chats))) == "error"


@pytest.mark.parametrize("trouble", ["no answer within 10 s", OUT_OF_TIME])
def test_a_long_prompt_that_is_late_says_nothing_of_the_cache(code: Settings, trouble: str) -> None:
    twice = Twice(
        where="pod-1",
        prompt_tokens=4_753,
        first=Reply(status=200),
        second=Reply(trouble=trouble),
        before=parse(""),
        after=parse(""),
    )
    check = checks_traffic.prefix_caching(Facts(endpoint="", door=None, twice=twice), code)
    assert state_of(check) == "unknown"
    assert trouble in said_in(check)
