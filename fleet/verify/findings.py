"""A check is a row: its id, its title, the one cure that is shown when it fails, and a function that compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from facts.finding import Finding, Severity, block
from facts.texts import plural

if TYPE_CHECKING:
    from fleet.verify.facts import Facts
    from settings.stack import Settings

Check = tuple[Finding, ...]
"""The verdict of one check; if it failed, then its differences."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check that passes has seen."""

    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """Why a check, or a part of it, could not look."""

    why: str


Part = Finding | Seen | Unseen


def _always(_: Settings) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check. A difference fails it; without one, anything unseen leaves it unchecked."""

    id: str
    title: str
    cure: str
    look: Callable[[Facts, Settings], Iterator[Part]]
    needs: Callable[[Facts], str]
    """Why the facts do not have what it compares; empty if they do."""
    applies: Callable[[Settings], bool]
    """Whether the stack declares what it compares."""

    def __call__(self, facts: Facts, settings: Settings) -> Check | None:
        """The check; None where it does not apply."""
        if not self.applies(settings):
            return None
        why = self.needs(facts)
        parts: list[Part] = [Unseen(why)] if why else list(self.look(facts, settings))
        differences = [part for part in parts if isinstance(part, Finding)]
        if differences:
            verdict = Finding(id=self.id, subject=self.title, found=self.cure)
            return verdict, *_together(replace(one, id=self.id) for one in differences)
        unseen = [part.why for part in parts if isinstance(part, Unseen)]
        said = unseen or [part.text for part in parts if isinstance(part, Seen)]
        severity: Severity = "unknown" if unseen else "passed"
        return (Finding(id=self.id, subject=self.title, severity=severity, found="; ".join(said)),)


def check(
    id_: str,
    title: str,
    cure: str,
    *,
    needs: Callable[[Facts], str],
    applies: Callable[[Settings], bool] = _always,
) -> Callable[[Callable[[Facts, Settings], Iterator[Part]]], Row]:
    """Makes a row of a function that yields differences, what it has seen, and what it could not see."""
    return lambda look: Row(id=id_, title=title, cure=cure, look=look, needs=needs, applies=applies)


def difference(where: str, name: str, declared: str, found: str) -> Finding:
    """Where declared and found differ: `where` is a pod, `endpoint`, or an object's name. The row gives it the check's id."""
    return Finding(id="", subject=f"{where} · {name}", found=found, allowed=declared)


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
