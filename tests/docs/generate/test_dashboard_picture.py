"""The committed picture of the dashboard is the one that is drawn now."""

from __future__ import annotations

from docs.generate.dashboard_picture import PICTURE, picture


def test_the_committed_picture_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture()
