"""Output files of `fleet bench`: new ones, or existing ones of the same kind."""

from __future__ import annotations

from pathlib import Path

from facts import strict_json
from fleet.cli.exits import CommandError


def require_outside(out: Path, folder: Path) -> None:
    """Refuse a place that would overwrite results, or that the next merge would read. Raises CommandError."""
    from fleet.bench.folder import MERGED_FILE

    place, measured = out.resolve(), folder.resolve()
    if place.is_relative_to(measured) and place != measured / MERGED_FILE:
        raise CommandError(f"--out {out}: {folder} holds the results; pass a path outside it")


def require_an_outcome(file: Path) -> None:
    """Refuse to overwrite anything but the outcome of a merge. Raises CommandError.

    A measurement's own file, named by mistake, would be lost, and root would replace a device such as /dev/null by a file.
    """
    if not file.exists():
        return
    if not file.is_file():
        raise CommandError(f"--out {file}: not a regular file; pass a new file or the outcome of a merge")
    try:
        found = strict_json.read(file)
    except (OSError, ValueError):
        found = None
    if not (isinstance(found, dict) and {"measurement", "certificate"} <= found.keys()):
        raise CommandError(f"--out {file}: exists and is not the outcome of a merge; pass another file")
