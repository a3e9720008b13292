"""Encodes a policy's verdict (what, why, fix, at stake) as one text for Pulumi, and decodes it.

`encode` starts each part on a new line and indents continuation lines, so that `decode` restores the parts. A text of another
policy pack is decoded as a whole to `what`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REPEATED_ON_PURPOSE: Final = "repeated-on-purpose"
"""The policy that reports deliberate exceptions."""
RULES_NOT_ASKED: Final = "rules-not-asked"
"""The policy that reports what the stack's configuration switches off."""

_LABELS: Final = {"why": "Why: ", "fix": "Fix: ", "at_stake": "At stake: "}
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A violation found by a rule."""

    what: str
    why: str = ""
    fix: str = ""
    at_stake: str = ""
    """Cost of ignoring it."""


def encode(verdict: Verdict) -> str:
    """Encode a verdict as text."""
    parts = [("", verdict.what)]
    parts += [(label, text) for part, label in _LABELS.items() if (text := getattr(verdict, part))]
    return "\n".join(label + text.replace("\n", f"\n{_INDENT}") for label, text in parts)


def decode(text: str, *, description: str = "") -> Verdict:
    """Decode a text. `description`: the policy's description, which an SDK puts first."""
    body = text.removeprefix(f"{description}\n") if description else text
    first, *lines = body.split("\n")
    parts = {"what": [first]}
    current = parts["what"]
    for line in lines:
        part = next((one for one, label in _LABELS.items() if line.startswith(label) and one not in parts), "")
        if part:
            current = parts[part] = [line.removeprefix(_LABELS[part])]
        elif line.startswith(_INDENT):
            current.append(line.removeprefix(_INDENT))
        else:
            return Verdict(what=body)
    if len(parts) == 1:
        return Verdict(what=body)
    return Verdict(**{part: "\n".join(lines) for part, lines in parts.items()})
