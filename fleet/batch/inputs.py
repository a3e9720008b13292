"""The file of documents: on this machine, or an object in Cloud Storage, which is brought here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.user_error import UserError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_OBJECT: Final = re.compile(r"gs://([^/]+)/(.+)")


def is_object(given: str) -> bool:
    """Whether it names an object."""
    return given.startswith("gs://")


def local_file(given: str, folder: Path, login: Credentials, progress: Callable[[int, int], None]) -> Path:
    """The file. An object is downloaded into `folder`, and not again while it is the same. Raises UserError and LiveError."""
    if not is_object(given):
        if not Path(given).exists():
            raise UserError(f"{given}: no such file")
        return Path(given)
    found = _OBJECT.fullmatch(given)
    if found is None or any(part in ("", ".", "..") for part in found[2].split("/")):
        raise UserError(f"{given}: not an object; write gs://BUCKET/OBJECT")
    # Needs the packages of the extra benchmark.
    from fleet.clients.storage import Bucket

    place = folder.joinpath(found[1], *found[2].split("/"))
    Bucket(found[1], login).download(found[2], place, progress)
    return place
