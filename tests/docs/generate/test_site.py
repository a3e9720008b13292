"""The site's pages link to what the site has; everything else leads to the repository or is plain text."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from docs.generate.site import NOT_PAGES, for_the_site
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
FILES = frozenset(
    {"docs/plan.md", "docs/img/stack-spot.svg", "infra/README.md", "infra/network.py", "policy/rules/cost.py"}
)
STAGED = frozenset({"docs/plan.md", "docs/img/stack-spot.svg", "infra/README.md"})
REPOSITORY = "https://example.com/fleet"


@each_row(
    ("text", "with_repository", "without"),
    [
        ("[a](a.md#top)", "[a](a.md#top)", "[a](a.md#top)"),
        ("![a](img/stack-spot.svg)", "![a](img/stack-spot.svg)", "![a](img/stack-spot.svg)"),
        ("[a](../infra)", "[a](../infra/README.md)", "[a](../infra/README.md)"),
        ("[a](../infra/network.py)", f"[a]({REPOSITORY}/blob/main/infra/network.py)", "a"),
        ("[`a`](../policy/rules)", f"[`a`]({REPOSITORY}/tree/main/policy/rules)", "`a`"),
        ("[a](missing.md)", "[a](missing.md)", "[a](missing.md)"),
        ("[a](https://example.com/a.md)", "[a](https://example.com/a.md)", "[a](https://example.com/a.md)"),
        ("text:\n- a\n- b\n", "text:\n\n- a\n- b\n", "text:\n\n- a\n- b\n"),
        ("```\na:\n- [a](../infra)\n```", "```\na:\n- [a](../infra)\n```", "```\na:\n- [a](../infra)\n```"),
        (r"| `a \| b` |", "| `a | b` |", "| `a | b` |"),
    ],
)
def test_a_page_is_rewritten_for_the_site(text: str, with_repository: str, without: str) -> None:
    assert for_the_site(text, "docs/plan.md", FILES, STAGED, REPOSITORY) == with_repository
    assert for_the_site(text, "docs/plan.md", FILES, STAGED, "") == without


def test_the_navigation_has_every_guide() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = set(re.findall(r"[\w/-]+\.md", str(navigation)))
    guides = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("*.md")}
    assert guides <= named
    assert not any(name.startswith(NOT_PAGES) for name in named)
