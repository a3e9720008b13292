"""When there is no report at all."""

from __future__ import annotations

import pytest

from fleet.clients.errors import LiveError
from fleet.doctor import live
from fleet.doctor.gcloud import NoAnswerError, Reason
from tests.support.settings import make_settings


@pytest.mark.parametrize(
    ("reasons", "reason"),
    [
        (("timeout", "unreachable"), "unreachable"),
        (("forbidden", "forbidden"), "unreachable"),
        (("unreachable", "login"), "credentials"),
    ],
)
def test_where_nothing_was_answered_there_is_no_report(
    monkeypatch: pytest.MonkeyPatch, reasons: tuple[Reason, ...], reason: str
) -> None:
    answers = {f"question {number}": NoAnswerError("why", each) for number, each in enumerate(reasons)}
    monkeypatch.setattr("fleet.doctor.gcloud.is_installed", lambda: True)
    monkeypatch.setattr(live, "ask_all", lambda _: answers)
    with pytest.raises(LiveError) as caught:
        live.look(make_settings())
    assert caught.value.reason == reason


def test_without_gcloud_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.doctor.gcloud.is_installed", lambda: False)
    with pytest.raises(LiveError) as caught:
        live.look(make_settings())
    assert caught.value.reason == "missing program"
