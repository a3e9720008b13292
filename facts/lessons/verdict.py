"""A finding as the text of a policy violation, which is all that Pulumi's protocol carries, and back.

`encode` starts each part on a new line and indents continuation lines, so that `decode` restores the parts. A text of another
policy pack is decoded as a whole to `found`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from facts.finding import Finding, Severity

REPEATED_ON_PURPOSE: Final = "repeated-on-purpose"
"""The policy that reports deliberate exceptions."""

_INDENT: Final = "  "
_LABELS: Final = {name: f"{name}: " for name in ("allowed", "why", "write")}


def encode(finding: Finding) -> str:
    """What was found, what is allowed, why, and what to write."""
    parts = [("", str(finding.found)), *((f"{label}: ", text) for label, text in finding.details())]
    return "\n".join(label + text.replace("\n", f"\n{_INDENT}") for label, text in parts)


# A report asks for each verdict's finding in its headline, its table and its list.
@lru_cache(maxsize=1024)
def decode(text: str, *, policy: str, subject: str, severity: Severity, description: str = "") -> Finding:
    """The finding of a policy about a subject. `description`: the policy's description, which the text begins with."""
    body = text.removeprefix(f"{description}\n") if description else text
    return Finding(id=policy, subject=subject, severity=severity, **_parts(body))


def _parts(body: str) -> dict[str, str]:
    first, *lines = body.split("\n")
    parts = {"found": [first]}
    current = parts["found"]
    for line in lines:
        part = next((one for one, label in _LABELS.items() if line.startswith(label) and one not in parts), "")
        if part:
            current = parts[part] = [line.removeprefix(_LABELS[part])]
        elif line.startswith(_INDENT):
            current.append(line.removeprefix(_INDENT))
        else:
            return {"found": body}
    return {"found": body} if len(parts) == 1 else {part: "\n".join(lines) for part, lines in parts.items()}
