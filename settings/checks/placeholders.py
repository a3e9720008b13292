"""Placeholders: values of examples that a stack file still has. Each is valid, and would do nothing or reach a stranger.

An offline preview works with them; `fleet check` and the program refuse them once the stack has a project of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from facts.finding import Finding
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

PLACEHOLDER_PROJECT: Final = "your-project-id"
"""Placeholder of gcp:project in the stack files; the same as in the article's commands."""
STAND_IN_PROJECT: Final = "offline-preview"
"""Replaces it in an offline preview. A stack without a project of its own reaches nobody."""

_HOST: Final = r"(?:[\w-]+\.)*(?:example\.(?:com|net|org|edu)|[\w-]+\.(?:example|invalid|test))"
_RESERVED: Final = re.compile(
    rf"(?:[a-z]+:)?(?:[^@/\s]+@|[a-z]+://(?:[^@/]*@)?)?{_HOST}(?::[0-9]+)?(?:/.*)?", re.IGNORECASE
)
"""An address, a URL or a host. Source: RFC 2606 and RFC 6761, names for documentation and tests: nobody receives what is sent there."""
_TO_REPLACE: Final = re.compile(
    r"(?:.*[^a-z0-9])?your[-_].*|change[-_]?me|todo|fixme|placeholder|x{4,}|0{40}|"
    # Sample ids of billing accounts in Google Cloud's documentation.
    r"(?:.*/)?(?:0{6}-0{6}-0{6}|012345-[0-9a-f]{6}-[0-9a-f]{6})",
    re.IGNORECASE,
)
_IN_CAPITALS: Final = re.compile(
    r"(?:.*/)?(?:MY[-_]|YOUR[-_])?(?:PROJECT|ORGANIZATION|ORG|TOPIC|BUCKET)(?:[-_]ID)?(?:/.*)?"
)
"""`projects/PROJECT/topics/TOPIC`, as in documentation; ids of Google Cloud are in lowercase."""
_FREE_TEXT: Final = frozenset({"labels", "tensorParallelReason"})
"""Keys whose values name nothing that is reached."""
_PROJECT = Row(
    "placeholder-project",
    "it is the stack file's placeholder; only an offline preview works without a project",
    "pulumi config set gcp:project MY-PROJECT",
)
_VALUE = Row(
    "placeholder",
    "it is an example's: valid, so nothing else refuses it, and nobody and nothing of yours is reached",
    "your own value",
)


def placeholders(settings: Settings) -> Iterator[Finding]:
    """An error for each value that is still an example's; of a stack without a project of its own, a note."""
    project = settings.project
    if project == PLACEHOLDER_PROJECT:
        yield _PROJECT("gcp:project", project, "the id of your Google Cloud project")
    given = settings.model_dump(by_alias=True, exclude_unset=True, exclude={"project", "region", "stack"})
    for path, text in _texts(given, ""):
        if is_placeholder(text):
            yield _VALUE(path, text, "a value of your own", "note" if project == STAND_IN_PROJECT else "error")


def is_placeholder(text: str) -> bool:
    """Whether the whole value is an example's: a reserved domain, or a word to replace."""
    if any(letter.isspace() for letter in text.strip()):
        return False
    return any(pattern.fullmatch(text.strip()) for pattern in (_RESERVED, _TO_REPLACE, _IN_CAPITALS))


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in _FREE_TEXT:
                yield from _texts(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}[{number}]")
