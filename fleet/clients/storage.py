"""The results bucket from a laptop: list, read, and mirror a folder, checked byte for byte, resumed where it broke off."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from google.api_core.exceptions import NotFound
from google.api_core.retry import Retry
from google.auth.credentials import Credentials
from google.cloud.storage import Blob, Client

from fleet.clients.errors import LiveError
from fleet.clients.google_api import ANSWER_SECONDS, RETRY, as_live_errors
from fleet.clients.side_by_side import side_by_side

ENDPOINT_VARIABLE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
"""gcloud's own variable for another endpoint, e.g. one of Private Service Connect. Source: gcloud docs, api_endpoint_overrides."""
PARALLEL: Final = 8
"""Downloads at once. Assumed: results are tens of megabytes each, and a laptop's line is full with a few."""
_MAY: Final = "roles/storage.objectViewer on the bucket"


class Bucket:
    """One bucket, read with the user's login. All methods raise LiveError. Safe to use from many threads."""

    def __init__(self, name: str, credentials: Credentials, *, url: str | None = None, retry: Retry = RETRY) -> None:
        """`url`: where Cloud Storage is; default: what gcloud's endpoint override says, else Google's own."""
        self.name = name
        given = url or os.environ.get(ENDPOINT_VARIABLE)
        # gcloud's override carries the API's path, the client's does not.
        endpoint = {"api_endpoint": given.rstrip("/").removesuffix("/storage/v1")} if given else None
        # Its traces would ask for the bucket itself, beside the first request, which takes another role.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        self._bucket = Client(project=None, credentials=credentials, client_options=endpoint).bucket(name)
        self._how: dict[str, Any] = {"retry": retry, "timeout": ANSWER_SECONDS}

    def list_all(self, prefix: str) -> tuple[Blob, ...]:
        """Every object below a prefix, by name: with size, MD5, generation and the moment of its last change."""
        fields = "items(name,size,md5Hash,generation,updated),nextPageToken"
        with as_live_errors(f"listing gs://{self.name}/{prefix}", _MAY):
            return tuple(self._bucket.list_blobs(prefix=prefix, fields=fields, **self._how))

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Names of the folders right below a prefix that ends with a slash."""
        with as_live_errors(f"listing gs://{self.name}/{prefix}", _MAY):
            listing = self._bucket.list_blobs(
                prefix=prefix, delimiter="/", fields="prefixes,nextPageToken", **self._how
            )
            for _ in listing.pages:
                pass  # each adds its prefixes
            return tuple(sorted(name[len(prefix) :].rstrip("/") for name in listing.prefixes))

    def read(self, name: str) -> bytes | None:
        """A small object's content; None where there is none of that name."""
        with as_live_errors(f"reading gs://{self.name}/{name}", _MAY):
            try:
                return bytes(self._bucket.blob(name).download_as_bytes(**self._how))
            except NotFound:
                return None

    def mirror(
        self,
        prefix: str,
        folder: Path,
        *,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        parallel: int = PARALLEL,
    ) -> tuple[Path, ...]:
        """Every object below `prefix` (which ends with a slash) as a file below `folder`; folders that begin with a dot are left out.

        Each file appears when it is whole and right. One that is already there with the right content is not fetched again;
        what a download that was stopped left behind is continued. `progress` is told bytes done and bytes in all.
        """
        wanted = [
            (blob, _place(prefix, blob.name, folder)) for blob in self.list_all(prefix) if _belongs(prefix, blob.name)
        ]
        counted = _Counted(sum(blob.size for blob, _ in wanted), progress)
        try:
            side_by_side(lambda pair: self._fetch(*pair, counted), wanted, parallel)
        finally:
            counted.stop.set()
        return tuple(place for _, place in wanted)

    def _fetch(self, blob: Blob, place: Path, counted: _Counted) -> None:
        what = f"fetching gs://{self.name}/{blob.name}"
        with as_live_errors(what, _MAY):
            if place.is_file() and blob.md5_hash and _is_right(place, blob):
                counted.add(blob.size)
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(f".{place.name}.{blob.generation}.part")
            part.touch()
            counted.add(part.stat().st_size)
            self._complete(what, blob, part, counted)
            if not _is_right(part, blob):
                counted.add(-part.stat().st_size)
                part.unlink()
                raise LiveError(f"{what}: size or MD5 differs from what is stored; fetch again", reason="unreachable")
            # Under its name only now: a reader never sees half a file.
            part.replace(place)

    def _complete(self, what: str, blob: Blob, part: Path, counted: _Counted) -> None:
        """Append what is missing, for as long as something arrives."""
        while (have := part.stat().st_size) < blob.size:
            try:
                with as_live_errors(what, _MAY), part.open("ab") as file:
                    # As stored: unasked, Cloud Storage unpacks objects with Content-Encoding gzip, and their size differs then.
                    blob.download_to_file(
                        _Counting(file, counted), start=have or None, raw_download=True, checksum=None, **self._how
                    )
                return
            except LiveError as error:
                if error.reason != "unreachable" or part.stat().st_size == have:
                    raise LiveError(
                        f"{error}. What is here is kept; fetch again to continue", reason=error.reason
                    ) from None


class _Counted:
    """Bytes done, told on from many threads until they are stopped."""

    def __init__(self, total: int, progress: Callable[[int, int], None]) -> None:
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if not self.stop.is_set():
                self._progress(self._done, self._total)


class _Counting:
    """A file that a download is written to."""

    def __init__(self, file: IO[bytes], counted: _Counted) -> None:
        self._file, self._counted = file, counted

    def write(self, chunk: bytes) -> None:
        if self._counted.stop.is_set():
            raise LiveError("stopped")
        self._file.write(chunk)
        self._counted.add(len(chunk))


def _belongs(prefix: str, name: str) -> bool:
    """Whether an object is part of a measurement: barrier markers and progress, in folders that begin with a dot, are not."""
    # A name that ends with a slash is a folder's placeholder, as the console makes them.
    folders = name[len(prefix) :].split("/")[:-1]
    return not name.endswith("/") and not any(one.startswith(".") and one not in (".", "..") for one in folders)


def _place(prefix: str, name: str, folder: Path) -> Path:
    parts: Sequence[str] = name[len(prefix) :].split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise LiveError(f"object {name!r} has a name that is no path below a folder; nothing was fetched")
    return folder.joinpath(*parts)


def _is_right(path: Path, blob: Blob) -> bool:
    """Whether a file has the object's size and MD5, as far as Cloud Storage knows one."""
    if path.stat().st_size != blob.size:
        return False
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return blob.md5_hash in (None, base64.b64encode(digest.digest()).decode())
