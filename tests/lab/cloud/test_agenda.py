from __future__ import annotations

import logging
import threading

import pytest

from lab.cloud.agenda import Agenda, Backoff
from lab.control_plane.api import ApiRefusedError, ApiUnreachableError
from lab.results.clock import Clock

WAIT = 5.0


def test_calls_come_in_order_of_their_time() -> None:
    agenda, done, seen = Agenda(Clock(600.0), "test", workers=1), threading.Event(), []
    for name, seconds in (("last", 60.0), ("first", 15.0), ("middle", 36.0)):
        agenda.after(seconds, lambda name: (seen.append(name), done.set() if name == "last" else None), name)  # type: ignore[misc]
    assert done.wait(WAIT)
    agenda.close()
    assert seen == ["first", "middle", "last"]


def test_a_call_that_nobody_answers_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cloud.persistence.RETRY_SECONDS", 0.001)
    agenda, done, attempts = Agenda(Clock(), "test"), threading.Event(), []

    def call() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise ApiUnreachableError("away")
        done.set()

    agenda.soon(call)
    assert done.wait(WAIT)
    agenda.close()
    assert len(attempts) == 3


def test_what_is_refused_is_logged_and_what_is_gone_is_not_news(caplog: pytest.LogCaptureFixture) -> None:
    agenda, done = Agenda(Clock(), "test", workers=1), threading.Event()

    def refuse(status: int) -> None:
        raise ApiRefusedError(status, "Reason", f"status {status}")

    with caplog.at_level(logging.WARNING):
        agenda.soon(refuse, 404)
        agenda.soon(refuse, 409)
        agenda.soon(done.set)
        assert done.wait(WAIT)
        agenda.close()
    assert "status 409" in caplog.text
    assert "status 404" not in caplog.text


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cloud.agenda.BUSY_WALL_SECONDS", 0.001)
    agenda, done, answers = Agenda(Clock(), "test"), threading.Event(), [429, 500, 503]

    def call() -> None:
        if answers:
            raise ApiRefusedError(answers.pop(), "TooManyRequests", "storage is (re)initializing")
        done.set()

    agenda.soon(call)
    assert done.wait(WAIT)
    agenda.close()


def test_a_closed_agenda_does_nothing_more() -> None:
    agenda, called = Agenda(Clock(60.0), "test"), threading.Event()
    agenda.after(6.0, called.set)
    agenda.close()
    agenda.soon(called.set)
    assert not called.wait(0.2)


def test_pauses_grow_to_five_minutes_and_start_anew_when_forgotten() -> None:
    backoff = Backoff()
    pauses = [backoff.pause_seconds("claim") for _ in range(11)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == 300.0
    assert backoff.pause_seconds("other") == 1.0
    backoff.forget("claim")
    assert backoff.pause_seconds("claim") == 1.0
