"""A server that is only busy: that is no defect of the stack, and does not pass in silence."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.clients.metrics_text import MetricsText, parse
from fleet.verify import checks_service, checks_traffic
from fleet.verify.facts import Burst, Chat, Facts, Reply, Server
from settings.stack import Settings
from tests.fleet.verify.stacks import asked_twice, said_in, state_of
from tests.support.rows import each_row

LATE = "no answer within 12 s"


def _tokens(*counts: int) -> MetricsText:
    return parse("".join(f'vllm:generation_tokens_total{{engine="{n}"}} {c}\n' for n, c in enumerate(counts)))


def _burst(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "asked": 32,
        "answered": 32,
        "troubles": (),
        "before": _tokens(*[0] * 8),
        "after": _tokens(*[9] * 8),
    }
    server = Server(name="pod-1", health=Reply(status=200), burst=Burst(**{**given, **changes}))
    return Facts(endpoint="", door=None, pods=(server,))


def test_requests_that_wait_behind_others_are_said_and_fail_nothing(cud: Settings) -> None:
    check = checks_traffic.ranks(_burst(answered=20, late=12, troubles=(LATE,)), cud)
    assert (state_of(check), len(check)) == ("passed", 1)
    assert "20 of 32" in said_in(check)


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


def _chat(**changes: Any) -> Facts:
    return Facts(
        endpoint="http://127.0.0.1:1",
        door=Server(name="endpoint", health=Reply(status=200)),
        chat=Chat(through="endpoint", **changes),
    )


@each_row(
    ("changes", "state"),
    [
        ({"content": "17 plus", "trouble": LATE}, "passed"),
        ({"trouble": LATE}, "error"),
        ({"content": "17 plus", "trouble": "connection aborted"}, "error"),
    ],
)
def test_a_late_answer_that_began_is_a_loaded_servers(changes: dict[str, Any], state: str, dev: Settings) -> None:
    assert state_of(checks_service.completion(_chat(**changes), dev)) == state


def test_a_long_prompt_that_is_late_says_nothing_of_the_cache(code: Settings) -> None:
    check = checks_traffic.prefix_caching(asked_twice(second=Reply(trouble=LATE)), code)
    assert state_of(check) == "unknown"
    assert LATE in said_in(check)
