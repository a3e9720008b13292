"""CODEOWNERS as GitHub reads it."""

from __future__ import annotations

from pathlib import Path

from fleet.doctor.code_owners import faults, read
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]


@each_row(
    ("pattern", "matched", "other"),
    [
        ("*", "a/b/c.py", None),
        ("*.py", "a/b/c.py", "a/b/c.pyc"),
        ("/policy/", "policy/config/spot.json", "settings/policy/x"),
        ("policy/", "settings/policy/x", "policy"),
        ("docs/*", "docs/a.md", "docs/a/b.md"),
        ("/docs", "docs/a/b.md", "a/docs"),
        ("config/*.json", "config/a.json", "policy/config/a.json"),
        ("**/config", "policy/config/a.json", "configuration/a"),
        ("/a/**/b.py", "a/b.py", "b.py"),
        ("Pulumi.?????.yaml", "Pulumi.smoke.yaml", "Pulumi.dev.yaml"),
        ("/Policy/", None, "policy/a"),
    ],
)
def test_a_pattern_matches_as_on_github(pattern: str, matched: str | None, other: str | None) -> None:
    (line,) = read(f"{pattern} @acme/all # why\n")
    assert matched is None or line.matches(matched)
    assert other is None or not line.matches(other)


@each_row(
    ("text", "path", "sound"),
    [
        ("* @acme/all", "policy/a", True),
        ("* me@example.com @someone", "policy/a", True),
        ("* @acme/all\n/policy/", "policy/a", False),
        ("* @acme/all\n/policy/ @acme/judges\n/policy/ # nobody", "policy/a", False),
        ("/facts/ @acme/all", "policy/a", False),
        ("* @YOUR-ORG/all", "policy/a", False),
        ("* @your-org/all", "policy/a", False),
        ("* acme/all", "policy/a", False),
        ("* @acme/all\n!/policy/ @acme/judges", "policy/a", False),
        ("", "policy/a", False),
    ],
)
def test_the_last_line_that_matches_must_name_an_owner(text: str, path: str, sound: bool) -> None:
    assert (list(faults(read(text), [path])) == []) == sound


def test_the_template_gives_the_lessons_to_the_owners_of_the_pack() -> None:
    lines = read((ROOT / ".github" / "CODEOWNERS.template").read_text(encoding="utf-8"))
    rule, lesson = (
        next(line.owners for line in reversed(lines) if line.matches(path))
        for path in ("policy/rules/cost.py", "facts/lessons/serving.py")
    )
    assert rule == lesson
