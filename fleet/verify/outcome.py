"""Builds checks from differences."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.report.words import plural
from fleet.verify.findings import Check, Difference, Lesson


def judged(
    id_: str,
    title: str,
    differences: Iterable[Difference],
    *,
    held: str,
    failed: str = "",
    lessons: Iterable[Lesson] = (),
) -> Check:
    """A check that fails if there are differences. `held`: summary if passed; `failed`: summary if failed."""
    found = tuple(differences)
    if not found:
        return Check(id=id_, title=title, state="passed", summary=held)
    # Several differences may have the same lesson.
    unique = tuple({lesson.id: lesson for lesson in lessons}.values())
    summary = failed or "not as declared"
    return Check(id=id_, title=title, state="failed", summary=summary, differences=found, lessons=unique)


def not_checked(id_: str, title: str, why: str, lessons: Iterable[Lesson] = ()) -> Check:
    """A check that could not run."""
    return Check(id=id_, title=title, state="not checked", summary=why, lessons=tuple(lessons))


def told(id_: str, title: str, what: str) -> Check:
    """Information without a verdict."""
    return Check(id=id_, title=title, state="information", summary=what)


def format_where(names: Iterable[str]) -> str:
    """What was checked: `the endpoint`, `pod a`, `12 pods`."""
    found = list(names)
    pods = [name for name in found if name != "endpoint"]
    words = [plural(len(pods), "pod")] if pods else []
    return " and ".join(words + (["the endpoint"] if "endpoint" in found else [])) or "nothing"
