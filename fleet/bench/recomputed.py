"""Stored conclusions against the results they were computed from: a reader computes them again and believes nothing else.

A rollout's verdict names its results: `Results`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from math import isclose
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from facts import strict_json
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import RUN_FILE, VERDICT_FILE

_SAME: Final = 1e-10
"""Allowed difference of two numbers, relative and absolute: sums of the same values differ in the last bits between processors."""
_WORDS: Final = frozenset({"title", "allowed", "why"})
"""Texts of a check that another release of fleet may put differently. They conclude nothing."""
_LONGEST: Final = 60
_NOT_INPUTS: Final = (".html", ".png", ".svg")

Part = TypeVar("Part", bound=BaseModel)


class Results(BaseModel):
    """Results by their digests, in a file that was computed from them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    folder: str
    """Relative to the file that names it."""
    files: dict[str, str]
    """SHA-256 of every file, by its path within the folder."""


def results_of(folder: Path, file: Path) -> Results:
    """What `file` says of the results in `folder`."""
    return Results(folder=relative(folder, file.resolve().parent), files=digests(folder))


def relative(path: Path, folder: Path) -> str:
    """A path as a file in `folder` names it. Raises BenchmarkError for one that is no text."""
    found = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    try:
        found.encode()
    except UnicodeEncodeError:
        raise BenchmarkError(
            f"{path}: the name has bytes that are not UTF-8, which JSON cannot hold; rename it"
        ) from None
    return found


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every measured file below a folder. Raises BenchmarkError for a name that no list of digests can hold."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and _is_input(path, folder))
    names = {path.relative_to(folder).as_posix(): path for path in found}
    for name in names:
        if not name.isprintable():
            raise BenchmarkError(
                f"{folder}: the file name {name!a} has line breaks, control characters or bytes that are not UTF-8; rename it"
            )
    return {name: digest(path) for name, path in names.items()}


def _is_input(path: Path, folder: Path) -> bool:
    """Whether a file below a measurement's folder was measured, and not made from the measurement afterwards."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.name not in ("SHA256SUMS", VERDICT_FILE) and path.suffix not in _NOT_INPUTS and not hidden


def digest_of_all(folder: Path) -> str:
    """SHA-256 of a folder's measured files, as `sha256sum` would list them."""
    listed = "".join(f"{one}  {name}\n" for name, one in digests(folder).items())
    return hashlib.sha256(listed.encode()).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stated_in(file: Path, what: str, schema: int, todo: str) -> dict[str, Any]:
    """What a file says, as JSON. Raises BenchmarkError for anything but an object of this schema, and OSError."""
    try:
        found = strict_json.read(file)
    except ValueError as error:
        raise BenchmarkError(f"{file} is not {what}: {error}; {todo}") from None
    if not isinstance(found, dict):
        raise BenchmarkError(f"{file} is not {what}: it is not a JSON object; {todo}")
    if (told := found.get("schema")) != schema or type(told) is not int:
        written = "has no schema" if told is None else f"has schema {_short(told)}"
        raise BenchmarkError(
            f"{file} {written}, and this version of fleet reads {schema}: another one wrote it, and it cannot be computed again "
            f"from its results; {todo}"
        )
    return found


def part_of(file: Path, stated: dict[str, Any], key: str, kind: type[Part], todo: str) -> Part:
    """One key's value, validated. Raises BenchmarkError."""
    try:
        return kind.model_validate_json(json.dumps(stated.get(key)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join((key, *(str(part) for part in first["loc"])))
        raise BenchmarkError(f"{file}: {where}: {first['msg']}; {todo}") from None


def located(file: Path, results: Results, which: str, todo: str) -> Path:
    """The folder of the results. Raises BenchmarkError if they are missing or not those that `file` was computed from."""
    folder = (file.resolve().parent / results.folder).resolve()
    # Before anything is read: the path is whatever the file says.
    if not (folder / RUN_FILE).is_file() and not any(folder.glob(f"*/{RUN_FILE}")):
        raise BenchmarkError(
            f"{file}: {which}, {folder}, are missing, and without them nothing in it can be computed again: put them back, or {todo}"
        )
    now = digests(folder)
    for name in sorted(now.keys() | results.files.keys()):
        if now.get(name) != results.files.get(name):
            change = "is missing" if name not in now else "was added" if name not in results.files else "has changed"
            raise BenchmarkError(f"{file}: {which}: {folder / name} {change} since; put it back, or {todo}")
    return folder


def require_same(file: Path, stated: Any, computed: Any, todo: str) -> None:
    """Raises BenchmarkError for the first value that is not what the results give."""
    for where, said, found in _differences(stated, computed, ""):
        raise BenchmarkError(
            f"{file}: {where or 'it'} is {_short(said)}, and the results give {_short(found)}: it was edited, or its results were, "
            f"or another version of fleet wrote it; {todo}"
        )


class _Nothing:
    def __repr__(self) -> str:
        return "missing"


_NOTHING: Final = _Nothing()


def _differences(stated: Any, computed: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(stated, dict) and isinstance(computed, dict):
        for key in dict.fromkeys((*computed, *stated)):
            if key not in _WORDS or not {"id", "verdict"} <= computed.keys():
                inner = f"{where}.{key}".lstrip(".")
                yield from _differences(stated.get(key, _NOTHING), computed.get(key, _NOTHING), inner)
    elif isinstance(stated, list) and isinstance(computed, list):
        for number in range(max(len(stated), len(computed))):
            said, found = (each[number] if number < len(each) else _NOTHING for each in (stated, computed))
            yield from _differences(said, found, f"{where}.{number}")
    elif not _equal(stated, computed):
        yield where, stated, computed


def _equal(stated: Any, computed: Any) -> bool:
    numbers = [type(one) in (int, float) for one in (stated, computed)]
    if all(numbers) and float in (type(stated), type(computed)):
        try:
            return isclose(stated, computed, rel_tol=_SAME, abs_tol=_SAME)
        except OverflowError:  # a whole number beyond every float
            return False
    return type(stated) is type(computed) and bool(stated == computed)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
