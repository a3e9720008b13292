"""The digest of a measurement's raw results, by which a ledger entry names them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from fleet.bench.errors import BenchmarkError

_NOT_MEASURED: Final = (".html", ".png", ".svg")


def digest_of_all(folder: Path) -> str:
    """SHA-256 of a folder's measured files, as `sha256sum` would list them.

    Raises BenchmarkError for a name that no list of digests can hold.
    """
    listed = ""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and _is_measured(path, folder)):
        name = path.relative_to(folder).as_posix()
        if not name.isprintable():
            raise BenchmarkError(
                f"{folder}: the file name {name!a} has line breaks, control characters or bytes that are not UTF-8; rename it"
            )
        with path.open("rb") as file:
            listed += f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n"
    return hashlib.sha256(listed.encode()).hexdigest()


def _is_measured(path: Path, folder: Path) -> bool:
    """Whether a file was measured, and not made from the measurement afterwards."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.name != "SHA256SUMS" and path.suffix not in _NOT_MEASURED and not hidden
