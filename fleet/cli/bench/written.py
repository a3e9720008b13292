"""Files that a command of `fleet bench` may write: new ones, and those of its own kind."""

from __future__ import annotations

from pathlib import Path

from fleet.cli.exits import CommandError
from settings import strict_json


def require_own_file(option: str, file: Path, kind: str, keys: frozenset[str]) -> None:
    """Nothing but a file of that kind is written over: an object of JSON with these keys. Raises CommandError.

    A name of a measurement's own file, given by mistake, would otherwise cost the measurement. A device such as /dev/null
    would be replaced by a file where the user may do that, as in most containers.
    """
    if not file.exists():
        return
    if not file.is_file():
        raise CommandError(f"{option} {file}: it is no regular file; name a file, new or {kind}")
    try:
        found = strict_json.read(file)
    except (OSError, ValueError):
        found = None
    if not (isinstance(found, dict) and keys <= found.keys()):
        raise CommandError(f"{option} {file}: a file is there that is not {kind}, and it stays as it is; name another")
