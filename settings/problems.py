"""How a wrong setting is told to a person: where, what was given, what is allowed, why, what to write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["refused", "finding", "notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing about the settings that a person should know before paying for it."""

    id: str
    """Stable identifier, e.g. "tp8-on-one-gpu-model"; tests, reports and `Profile.lessons` refer to it."""
    path: str
    """The key's path as it is written in the stack file, e.g. "vllm-fleet:server.engine.maxModelLen"."""
    value: Any
    """The value that was given (or the default that applies)."""
    allowed: str
    """What would be accepted, in words or as a range with its unit."""
    why: str
    """The reason, with its figure where there is one."""
    write: str
    """What to write instead, ready to paste."""
    level: Level = "refused"
    """`refused`: nothing runs. `finding`: shown, counted. `notice`: shown."""
    on_purpose: bool = False
    """The profile reproduces a published row that teaches this, and the stack file left the settings concerned alone."""

    def text(self) -> str:
        """The problem as the few lines that a terminal shows."""
        verdict = {"refused": "is refused", "finding": "deserves a look", "notice": "(notice)"}[self.level]
        given = "nothing" if self.value is None else repr(self.value)
        return (
            f"{self.path}: {given} {verdict}\n  allowed: {self.allowed}\n  why:     {self.why}\n  write:   {self.write}"
        )


class SettingsError(Exception):
    """The stack's settings cannot be used. Carries every problem found, not only the first."""

    def __init__(self, stack: str, problems: Iterable[Problem]) -> None:
        self.stack = stack
        self.problems = tuple(problems)
        super().__init__(self.text())

    def text(self) -> str:
        """All problems, ready to print."""
        count = len(self.problems)
        head = f"Stack {self.stack!r}: {count} setting{'' if count == 1 else 's'} cannot be used."
        return "\n\n".join([head, *(problem.text() for problem in self.problems)])


def secret_in_plain_text(key: str) -> Problem:
    """The refusal of a secret key whose value is not encrypted; the value itself is not repeated."""
    return Problem(
        id="secret-in-plain-text",
        path=key,
        value="(not shown)",
        allowed="an encrypted value",
        why="plain text in a stack file or in the stack's configuration ends in version control, state and logs",
        write=f"pulumi config set --secret {key}",
    )
