"""The one stylesheet: both themes, contrast, phones and paper."""

from __future__ import annotations

import re

import pytest

from fleet.report import as_html

STYLE = as_html._STYLE.read_text()


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,8})", block))


LIGHT = _colours(STYLE[: STYLE.index("@media")])
DARK = LIGHT | _colours(STYLE[STYLE.index("@media") : STYLE.index("* { box-sizing")])


def test_both_themes_name_every_colour_and_no_rule_uses_another() -> None:
    dark = _colours(STYLE[STYLE.index("@media") : STYLE.index("* { box-sizing")])
    assert set(dark) == set(LIGHT)
    used = set(re.findall(r"var\(--([a-z-]+)\)", STYLE))
    assert used <= set(LIGHT) | {"sans", "mono"}
    rules = STYLE[STYLE.index("* { box-sizing") : STYLE.index("@media print")]
    assert re.findall(r"#[0-9a-f]{3,8}\b", rules) == []


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(theme: dict[str, str]) -> None:
    pairs = [
        ("ink", "paper"),
        ("soft", "paper"),
        ("ink", "warn-bg"),
        ("good", "code"),
        ("bad", "code"),
        ("warn", "code"),
        ("warn", "paper"),
        ("warn", "warn-bg"),
        ("good", "paper"),
        ("ink", "good-bg"),
        ("ink", "bad-bg"),
        ("bad", "paper"),
        ("accent", "paper"),
    ]
    weak = {pair: _contrast(theme[pair[0]], theme[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


def _contrast(one: str, other: str) -> float:
    lights = sorted((_luminance(one), _luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[start : start + 2], 16)) for start in (1, 3, 5))
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
