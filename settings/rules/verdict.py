"""A policy's verdict as the text that Pulumi carries, and taken apart again: what, why, fix, at stake.

A verdict crosses a process as one text. `encode` writes each part on lines of its own and indents what goes on over a line's
end, so that `decode` gives back the parts whatever they say. Texts of other packs come back whole, as what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REPEATED_ON_PURPOSE: Final = "repeated-on-purpose"
"""The policy of this project's pack that reports what a workload repeats knowingly; nobody has to look at it twice."""

_LABELS: Final = {"why": "Why: ", "fix": "Fix: ", "at_stake": "At stake: "}
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule found, in words."""

    what: str
    why: str = ""
    fix: str = ""
    at_stake: str = ""
    """Money."""


def encode(verdict: Verdict) -> str:
    """The text of a verdict that says why and what to write."""
    parts = [("", verdict.what)]
    parts += [(label, text) for part, label in _LABELS.items() if (text := getattr(verdict, part))]
    return "\n".join(label + text.replace("\n", f"\n{_INDENT}") for label, text in parts)


def decode(text: str, *, description: str = "") -> Verdict:
    """The parts of a text. `description`: what the policy asks for, with which an SDK begins the text."""
    said = text.removeprefix(f"{description}\n") if description else text
    first, *lines = said.split("\n")
    parts = {"what": [first]}
    current = parts["what"]
    for line in lines:
        part = next((one for one, label in _LABELS.items() if line.startswith(label) and one not in parts), "")
        if part:
            current = parts[part] = [line.removeprefix(_LABELS[part])]
        elif line.startswith(_INDENT):
            current.append(line.removeprefix(_INDENT))
        else:
            return Verdict(what=said)
    if len(parts) == 1:
        return Verdict(what=said)
    return Verdict(**{part: "\n".join(lines) for part, lines in parts.items()})
