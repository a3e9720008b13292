"""Every relative link of the guides has a file and a heading to go to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def pages() -> Iterator[Path]:
    yield from sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "facts").rglob("*.md")})
    yield ROOT / "policy" / "README.md"


@cache
def anchors(page: Path) -> frozenset[str]:
    """As GitHub names headings; a page's own anchors too."""
    text = page.read_text()
    headings = re.findall(r"^#+ +(.+?)\s*$", text, re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    named = re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)
    return frozenset({re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | {*named})


def test_no_link_is_dead() -> None:
    dead = []
    for page in pages():
        for path, anchor in LINK.findall(CODE.sub("", page.read_text())):
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                dead.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert not dead
