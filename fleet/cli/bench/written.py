"""Output files of `fleet bench`: new ones, or existing ones of the same kind."""

from __future__ import annotations

from pathlib import Path

from facts import strict_json
from fleet.cli.exits import CommandError


def require_outside(out: Path, folder: Path, option: str = "--out") -> None:
    """Refuse a place that would overwrite results, or that the next merge would read. Raises CommandError."""
    from fleet.bench.folder import MERGED_FILE

    place, measured = out.resolve(), folder.resolve()
    if place.is_relative_to(measured) and place != measured / MERGED_FILE:
        raise CommandError(f"{option} {out}: {folder} holds the results; pass a path outside it")


def require_own_file(option: str, file: Path, kind: str, keys: frozenset[str]) -> None:
    """Refuse to overwrite anything but a JSON object with these keys. Raises CommandError.

    A measurement's own file, named by mistake, would be lost, and root would replace a device such as /dev/null by a file.
    """
    if not file.exists():
        return
    if not file.is_file():
        raise CommandError(f"{option} {file}: not a regular file; pass a new file or {kind}")
    try:
        found = strict_json.read(file)
    except (OSError, ValueError):
        found = None
    if not (isinstance(found, dict) and keys <= found.keys()):
        raise CommandError(f"{option} {file}: exists and is not {kind}; pass another file")
