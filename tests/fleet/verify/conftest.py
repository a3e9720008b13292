"""Tests wait no longer than they must, and send no more."""

from __future__ import annotations

import pytest

from fleet.verify import ask, questions
from settings.stack import Settings
from tests.fleet.verify.stacks import settings_of


@pytest.fixture(autouse=True)
def a_short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that does not move is waited for a second and a half; here engines are in this process, and tell at once. Answers of
    24 tokens still make twice the drafts that a share of acceptance needs.
    """
    monkeypatch.setattr(ask, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(questions, "BURST_TOKENS", 24)
    monkeypatch.setattr(ask, "TOGETHER", 4)


@pytest.fixture(scope="session")
def dev() -> Settings:
    return settings_of("dev")


@pytest.fixture(scope="session")
def cud() -> Settings:
    return settings_of("cud")


@pytest.fixture(scope="session")
def code() -> Settings:
    """A stack with prefix caching where prompts can hit, and without MTP."""
    return settings_of("dev", profile="serve-code")
