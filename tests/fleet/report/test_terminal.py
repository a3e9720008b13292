from __future__ import annotations

import io

from fleet.report.terminal import Page, Paper


def printed(width: int = 60) -> tuple[io.StringIO, Page]:
    stream = io.StringIO()
    return stream, Page(Paper(stream=stream, width=width, styled=False))


def test_a_heading_s_remark_stands_at_the_right_margin_or_below() -> None:
    stream, page = printed()
    page.heading("left", "right")
    page.heading("l" * 58, "right")
    page.print()
    assert stream.getvalue().splitlines() == ["left" + " " * 51 + "right", "l" * 58, "  right"]


def test_a_minus_sign_is_a_hyphen_on_a_terminal() -> None:
    stream, page = printed()
    page.prose("\N{MINUS SIGN}5 %")
    page.print()
    assert stream.getvalue() == "  -5 %\n"
