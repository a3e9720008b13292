"""Tests wait no longer than they must."""

from __future__ import annotations

import pytest

from verify import ask


@pytest.fixture(autouse=True)
def no_long_wait_for_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that does not move is waited for a second and a half; here engines are in this process, and tell at once."""
    monkeypatch.setattr(ask, "SETTLE_SECONDS", 0.1)
