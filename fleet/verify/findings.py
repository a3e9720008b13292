"""Results of the checks: each check is one or more findings of the same id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from facts.finding import Finding, Severity, block
from facts.texts import plural

Check = tuple[Finding, ...]
"""The verdict of one check; if it failed, then its differences."""


def judged(
    id_: str,
    title: str,
    differences: Iterable[Finding],
    *,
    held: str,
    failed: str = "",
) -> Check:
    """A check that fails if there are differences. `held`: verdict if passed; `failed`: verdict if failed."""
    found = tuple(differences)
    if not found:
        return (Finding(id=id_, subject=title, severity="passed", found=held),)
    verdict = Finding(id=id_, subject=title, found=failed or "not as declared")
    return verdict, *_together(replace(one, id=id_) for one in found)


def difference(where: str, name: str, declared: str, found: str) -> Finding:
    """Where declared and found differ: `where` is a pod, `endpoint`, or an object's name. `judged` gives it the check's id."""
    return Finding(id="", subject=f"{where} · {name}", found=found, allowed=declared)


def not_checked(id_: str, title: str, why: str) -> Check:
    """A check that could not run."""
    return (Finding(id=id_, subject=title, severity="unknown", found=why),)


def told(id_: str, title: str, what: str) -> Check:
    """Information without a verdict."""
    return (Finding(id=id_, subject=title, severity="note", found=what),)


def format_where(names: Iterable[str]) -> str:
    """What was checked: `the endpoint`, `pod a`, `12 pods`."""
    found = list(names)
    pods = [name for name in found if name != "endpoint"]
    words = [plural(len(pods), "pod")] if pods else []
    return " and ".join(words + (["the endpoint"] if "endpoint" in found else [])) or "nothing"


def _together(found: Iterable[Finding]) -> Iterable[Finding]:
    """What differs in the same way on several pods, next to each other."""
    by_name: dict[tuple[str, str], list[Finding]] = {}
    for one in found:
        by_name.setdefault((one.subject.partition(" · ")[2], one.allowed), []).append(one)
    return (one for several in by_name.values() for one in several)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    project: str
    stack: str
    endpoint: str
    looked_at: str
    """What was checked and how it was reached."""
    seconds: float
    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Literal["passed", "failed", "not checked"]:
        """Overall state. Checks that did not run are not failures; without any passed check, nothing was checked."""
        if any(map(block, self.checks)):
            return "failed"
        return "passed" if self._count("passed") else "not checked"

    @property
    def verdict(self) -> str:
        """Counts of failed, passed and unchecked."""
        failed, unseen = self._count("error"), self._count("unknown")
        said = [f"{failed} failed"] if failed else []
        said.append(f"{self._count('passed')} passed")
        return ", ".join([*said, *([f"{unseen} not checked"] if unseen else [])])

    def _count(self, severity: Severity) -> int:
        return sum(check[0].severity == severity for check in self.checks)
