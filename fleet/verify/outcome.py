"""From differences to a check."""

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
    """Failed where there are differences, else passed. `held` is what was seen when it holds, `failed` what to do when not."""
    found = tuple(differences)
    if not found:
        return Check(id=id_, title=title, state="passed", summary=held)
    # One lesson may be taught by several differences.
    unique = tuple({lesson.id: lesson for lesson in lessons}.values())
    summary = failed or "not as declared"
    return Check(id=id_, title=title, state="failed", summary=summary, differences=found, lessons=unique)


def not_checked(id_: str, title: str, why: str, lessons: Iterable[Lesson] = ()) -> Check:
    """A check that could not be made."""
    return Check(id=id_, title=title, state="not checked", summary=why, lessons=tuple(lessons))


def told(id_: str, title: str, what: str) -> Check:
    """Something to know, without a verdict."""
    return Check(id=id_, title=title, state="information", summary=what)


def format_where(names: Iterable[str]) -> str:
    """What was looked at: `the endpoint`, `pod a`, `12 pods`."""
    found = list(names)
    pods = [name for name in found if name != "endpoint"]
    words = [plural(len(pods), "pod")] if pods else []
    return " and ".join(words + (["the endpoint"] if "endpoint" in found else [])) or "nothing"
