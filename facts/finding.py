"""A finding: what a check has to say about one thing, in the same words wherever it is shown.

`fleet check`, the preview, the policy pack, doctor, verify, the rehearsal, the certificate and the plan all report findings.
The renderers of fleet/report print them; `text` is for where only text can be shown, such as an error of the program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal, NoReturn

from facts.redact import Redactor, plaintexts_in
from facts.secrets_in_text import without_secrets
from facts.texts import MOST_CHARACTERS, shortened

Severity = Literal["error", "warning", "deliberate", "note", "passed", "unknown"]
"""`error` blocks: exit code 1 or 2. `deliberate`: a lesson that the stack breaks on purpose, because its profile repeats a published
run. `note`: not counted. `passed` and `unknown`: results of a check that found nothing, and of one that could not look."""
MARKS: Final[Mapping[Severity, str]] = {
    "error": "✗",
    "warning": "!",
    "deliberate": "!",
    "note": "·",
    "passed": "✓",
    "unknown": "–",
}
JSON_VERSION: Final = 1
"""Version of the shape of `as_json`; a change of a key or of its meaning raises it."""
_MOST_OF_A_TEXT: Final = 20 * MOST_CHARACTERS
"""Characters. Lists of what is allowed, such as all of vLLM's parsers, are shown whole."""
_MOST_OF_A_URN: Final = 4 * MOST_CHARACTERS
"""Characters. A URN names the types of all components around a resource."""
_LABELS: Final = ("allowed", "why", "write")
_KEY: Final = re.compile(r"(?:.*\s)?[\w-]+:[^\s:]+|.*line [0-9]+: \S+")
"""A key of a stack file, such as `vllm-fleet:server.image` or `line 2: server.image`: its names tell whether its value is a secret."""
_NOT_TEXT: Final = re.compile(r"[-+.]?[0-9][0-9_.eE+-]*|true|false|yes|no|on|off|null|~", re.IGNORECASE)
"""Text that YAML takes for something else unless it is in quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. Recognized secrets are replaced, and long texts shortened, when it is made: no report can print them."""

    id: str
    """Stable identifier of the check, policy or lesson, e.g. "tp8-on-one-gpu-model". Tests refer to it."""
    subject: str
    """What it is about: the path of a key, a resource, a pod, a file or a check."""
    severity: Severity = "error"
    found: Any = ""
    """The value or the state: JSON data or a text. None: a value that is missing."""
    allowed: str = ""
    """What is accepted, with its unit."""
    why: str = ""
    """The reason, with its figure and source."""
    write: str = ""
    """What to write or to type instead, ready to paste."""

    def __post_init__(self) -> None:
        """Replace secrets, by their form and by the names in a key, and shorten texts."""
        redactor = _redactor_of(self.subject, self.found)
        object.__setattr__(self, "found", _quoted(self.subject, redactor.value(self.found)))
        object.__setattr__(
            self,
            "subject",
            shortened(without_secrets(self.subject), _MOST_OF_A_URN if "::" in self.subject else MOST_CHARACTERS),
        )
        for name in _LABELS:
            object.__setattr__(self, name, shortened(redactor.text(getattr(self, name)), _MOST_OF_A_TEXT))

    @property
    def blocks(self) -> bool:
        """Whether it must be fixed first."""
        return self.severity == "error"

    def details(self) -> tuple[tuple[str, str], ...]:
        """`allowed`, `why` and `write` with their labels, where they are not empty."""
        return tuple((label, text) for label in _LABELS if (text := getattr(self, label)))

    def text(self) -> str:
        """The finding as lines of plain text."""
        head = f"{MARKS[self.severity]} {headline(self)}"
        lines = [head, *(f"  {label + ':':<9}{text}" for label, text in self.details())]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON data, all keys present. `JSON_VERSION` counts changes of this shape."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def redacted(subject: str, value: Any) -> Any:
    """A value without its secrets, by their form and, where the subject is a key, by its names."""
    return _redactor_of(subject, value).value(value)


def _redactor_of(subject: str, value: Any) -> Redactor:
    if value is None or value == "" or not _KEY.fullmatch(subject):
        return Redactor()
    for name in reversed(re.split(r"[.:\[\]]+", subject)):
        value = {name: value}
    return Redactor(plaintexts_in([value], any_name=True))


def _quoted(subject: str, value: Any) -> Any:
    """The value, or the beginning of its text where that is long: a key's value is a quote, another finding is a sentence."""
    if isinstance(value, str):
        return shortened(value, MOST_CHARACTERS if _KEY.fullmatch(subject) else _MOST_OF_A_TEXT)
    if isinstance(value, list | dict | int) and len(text := shown(value)) > MOST_CHARACTERS:
        return shortened(text)
    return value


def headline(finding: Finding) -> str:
    """`subject: found`, or that it is missing."""
    return finding.subject + said_of(finding)


def said_of(finding: Finding) -> str:
    """What stands behind the subject: `: found`, ` is missing`, or nothing."""
    subject, found = finding.subject, finding.found
    if found is None:
        return " is missing"
    if found == "":
        return ""
    if isinstance(found, str) and _KEY.fullmatch(subject) and _NOT_TEXT.fullmatch(found):
        return f': "{found}"'
    return f": {shown(found)}"


def shown(value: Any) -> str:
    """A value as YAML; a text as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else str(value)


def block(findings: Iterable[Finding]) -> bool:
    """Whether any finding blocks: the one rule for exit code 1."""
    return any(finding.blocks for finding in findings)


def raise_refused(problems: Iterable[Finding]) -> NoReturn:
    """Raise a ValueError with these findings, which Pulumi prints without a traceback: how a program's wrong value is refused."""
    raise _error_type()("\n\n".join(problem.text() for problem in problems)) from None


@cache
def _error_type() -> type[ValueError]:
    """A ValueError that is a pulumi.RunError, too, which Pulumi prints without a traceback. Made on use: importing pulumi takes time."""
    from pulumi import RunError

    return type("ArgumentError", (RunError, ValueError), {"__module__": __name__})
