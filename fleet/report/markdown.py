"""GitHub-flavored Markdown from untrusted values: a fork's stack file must not inject markup into a review comment."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 65_000
"""Maximum characters of a comment. Source: GitHub's limit of 65,536; the rest is for a workflow's marker."""
WHOLE: Final = sys.maxsize
"""No limit: a terminal, a page or a file."""
_LONGEST_CELL: Final = 400
"""Maximum characters of a table cell. Assumed: enough for a reason with its figure."""
_MARKUP: Final = re.compile(r"[\\`*_\[\]|~]|^[#+=-]")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])(?=\s|$)")
_LINKED: Final = re.compile(r"@|https?:(?=//)|\bwww(?=\.)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
"""Names, bare addresses, and issues of this and other repositories. Source: GitHub docs, "Autolinked references and URLs"."""
_BACKTICKS: Final = re.compile(r"`+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a comment that is shown completely or not at all."""

    name: str
    """Name for the list of omitted parts, e.g. "the bill of spot"."""
    text: str
    rank: int = 0
    """Parts of the highest rank are omitted first, starting with the last; the first part stays."""


def joined(parts: Iterable[Part], *, elsewhere: str, limit: int = LIMIT) -> str:
    """The parts as one text within the limit, with a sentence about omitted parts.

    `elsewhere` tells where to find them. If only the first part is left, it is cut at a line end.
    """
    kept = [part for part in parts if part.text]
    last_first = sorted(range(len(kept)), key=lambda index: (kept[index].rank, index), reverse=True)
    out: list[Part] = []
    note = ""
    length = sum(len(part.text) + len("\n\n") for part in kept)
    while length + len(note) + 1 > limit and len(out) < len(kept) - 1:
        out.insert(0, kept[last_first[len(out)]])
        length -= len(out[0].text) + len("\n\n")
        note = _left_out(out, elsewhere)
    kept = [kept[index] for index in sorted(last_first[len(out) :])]
    text = "\n\n".join(part.text for part in kept)
    if length + len(note) + 1 > limit:
        note = _left_out([Part(name=f"the rest of {kept[0].name}", text=""), *out], elsewhere)
        room = max(0, limit - len(note) - len("\n\n\n"))
        text = text[:room].rpartition("\n")[0] or text[:room]
    return "\n\n".join(filter(None, (text, note))) + "\n"


def _left_out(parts: Sequence[Part], elsewhere: str) -> str:
    names = [escape(part.name) for part in parts[:12]]
    if len(parts) > len(names):
        names.append(f"and {len(parts) - len(names)} more")
    return f"**Omitted** because of GitHub's size limit: {', '.join(names)}. {elsewhere}"


def escape(text: str) -> str:
    """Escaped text: one line without tags, links, emphasis or mentions."""
    line = _NUMBERED.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", " ".join(text.split())))
    return html.escape(_unlinked(line), quote=False)


def _unlinked(line: str) -> str:
    """A line with a zero-width space in what GitHub would link or notify, which it detects after decoding entities."""
    return _LINKED.sub("\\g<0>\u200b", line)


def prose(text: str) -> str:
    """Text whose only markup is code in backticks."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    shown = (code(piece) if index % 2 else _spaced(piece) for index, piece in enumerate(pieces))
    return "".join(shown).strip()


def _spaced(text: str) -> str:
    lead, tail = " " * text[:1].isspace(), " " * text[-1:].isspace()
    return f"{lead}{escape(text)}{tail}" if text.strip() else lead


def code(value: object) -> str:
    """A value as inline code, with enough backticks."""
    text = {True: "true", False: "false", None: "not set"}.get(value) if isinstance(value, bool | None) else str(value)
    line = " ".join(str(text).split()) or " "
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(line)), default=0))
    return f"{fence} {line} {fence}" if len(fence) > 1 else f"`{line}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], are_numbers: Iterable[bool] = ()) -> list[str]:
    """A table of Markdown cells; `cell` truncates long ones. Columns of numbers are aligned at the right."""
    rules = ("--:" if is_number else "---" for is_number in are_numbers or (False for _ in head))
    lines = [" | ".join(head), " | ".join(rules)]
    lines += [" | ".join(_in_a_cell(one) for one in row) for row in rows]
    return [f"| {line} |" for line in lines]


def cell(text: str) -> str:
    """Escaped text, truncated for a cell."""
    return escape(text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…")


def _in_a_cell(markdown: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", markdown.replace("\n", " "))


def fold(summary: str, body: Iterable[str]) -> list[str]:
    """A folded part. GitHub renders Markdown in the body only after an empty line."""
    return [
        "",
        f"<details><summary>{html.escape(_unlinked(summary), quote=False)}</summary>",
        "",
        *body,
        "",
        "</details>",
    ]


def fenced(lines: Iterable[str], language: str = "diff") -> list[str]:
    """Lines in a code fence that none of them can close."""
    body = [line.replace("\n", " ") for line in lines]
    longest = max((len(run) for line in body for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *body, fence]


def alert(kind: str, lines: Iterable[str]) -> list[str]:
    """GitHub's alert box: `CAUTION`, `WARNING`, `NOTE`."""
    return ["", f"> [!{kind}]", *(f"> {line}" for line in lines)]
