"""Add an entry to a ledger file without changing the rest, comments included."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.bench.recomputed import require_same
from fleet.bench.record.entry import Entry
from fleet.plan.stack_text import end_of

SECTION: Final = "figures"
_WIDTH: Final = 120


def add(path: Path, entry: Entry) -> bool:
    """Add the entry at the end of the file's `figures`. The write is atomic. False: the file has it already.

    Raises BenchmarkError for a file that is not there or is no ledger, and where it has another entry with that id, naming the first
    value that is not what these results give.
    """
    text = _read(path)
    before = _parsed(path, text)
    figures = before.get(SECTION) or {}
    if entry.id in figures:
        todo = "for another measurement, pass another --id"
        require_same(path, {entry.id: figures[entry.id]}, {entry.id: yaml_values(entry)}, todo)
        return False
    changed = _inserted(path, text, block(entry))
    expected = {**before, SECTION: {**figures, entry.id: dict(entry.fields)}}
    if _content(changed) != expected:
        raise BenchmarkError(
            f"{path}: an entry cannot be added without changing others; write `{SECTION}:` as the last section, entries below it "
            "indented by two spaces"
        )
    _write(path, changed)
    return True


def yaml_values(entry: Entry) -> Any:
    """The entry's fields as a reader of the file gets them."""
    return yaml.safe_load(yaml.safe_dump(dict(entry.fields), sort_keys=False))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BenchmarkError(
            f"--ledger {path}: {error.strerror or error}; the project's own is facts/data/measured.yaml, and a new one begins "
            f"with the line `{SECTION}: {{}}`"
        ) from error
    except UnicodeDecodeError as error:
        raise BenchmarkError(f"--ledger {path} is not text") from error


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        told = getattr(error, "problem", None) or f"a {type(error).__name__}"
        place = f", line {mark.line + 1}" if mark else ""  # not the excerpt, which quotes the file
        raise BenchmarkError(f"--ledger {path} is not valid YAML{place}: {told}") from error
    section = content.get(SECTION, 0) if isinstance(content, dict) else 0
    if not isinstance(content, dict) or not (section is None or isinstance(section, dict)):
        raise BenchmarkError(
            f"--ledger {path} is not a ledger: it needs `{SECTION}:` with entries by id; a new one begins with the "
            f"line `{SECTION}: {{}}`"
        )
    return content


def _content(text: str) -> object:
    """The parsed text; None where it is not YAML."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def block(entry: Entry) -> str:
    """The entry as YAML, indented below `figures`."""
    text = yaml.safe_dump(
        {entry.id: dict(entry.fields)}, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None
    )
    return "".join(f"  {line}\n" for line in text.splitlines())


def _inserted(path: Path, text: str, block: str) -> str:
    """The text with the block behind the last entry, or in place of an empty mapping."""
    newline = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    value = next(value for key, value in root.value if key.value == SECTION)
    if not value.value or not isinstance(value, yaml.MappingNode):
        # `figures: {}`, `figures: null`, or nothing behind the colon.
        head, tail = text[: value.start_mark.index], text[value.end_mark.index :]
        rest, _, after = tail.partition("\n")
        comment = rest.rstrip()
        return head.rstrip(" ") + comment + newline + block.replace("\n", newline) + after
    if value.flow_style:
        raise BenchmarkError(
            f"{path}: `{SECTION}` is written in braces; write its entries as a block, one below the other"
        )
    end = end_of(value)
    cut = text.find("\n", end)
    head, tail = (text, "") if cut < 0 else (text[: cut + 1], text[cut + 1 :])
    return head + ("" if head.endswith("\n") else newline) + block.replace("\n", newline) + tail


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise BenchmarkError(f"--ledger {path} cannot be written: {error.strerror or error}") from error
