"""Access to a bucket: list, read, write, and mirror a folder with checksums."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from google.api_core.exceptions import NotFound, PreconditionFailed
from google.api_core.retry import Retry
from google.auth.credentials import Credentials
from google.cloud.storage import Blob, Client

from fleet.clients.errors import LiveError
from fleet.clients.google_api import ANSWER_SECONDS, RETRY, as_live_errors
from fleet.clients.side_by_side import side_by_side

ENDPOINT_VARIABLE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
"""gcloud's variable for an alternative endpoint, e.g. Private Service Connect. Source: gcloud docs, api_endpoint_overrides."""
AT_ONCE: Final = 8
"""Parallel downloads. Assumed: results are tens of megabytes each, and a few saturate a laptop's connection."""
_SENT: Final[dict[str, Any]] = {"content_type": "application/octet-stream", "checksum": "md5"}
"""Of an upload: Cloud Storage, or the client, compares the sum of what arrived."""
_MAY: Final = "roles/storage.objectViewer on the bucket"
_MAY_WRITE: Final = "roles/storage.objectUser on the bucket"


class Bucket:
    """One bucket, with the user's login. All methods raise LiveError. Safe to use from many threads."""

    def __init__(self, name: str, credentials: Credentials, *, url: str | None = None, retry: Retry = RETRY) -> None:
        """`url`: Cloud Storage's address; default: gcloud's endpoint override, else Google's."""
        self.name = name
        given = url or os.environ.get(ENDPOINT_VARIABLE)
        # gcloud's override includes the API's path; the client's does not.
        endpoint = {"api_endpoint": given.rstrip("/").removesuffix("/storage/v1")} if given else None
        # Its tracing would read the bucket's metadata, which needs another role.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        self._bucket = Client(project=None, credentials=credentials, client_options=endpoint).bucket(name)
        self._how: dict[str, Any] = {"retry": retry, "timeout": ANSWER_SECONDS}

    def list_all(self, prefix: str) -> tuple[Blob, ...]:
        """All objects below a prefix, by name, with size, MD5, generation and time of the last change."""
        fields = "items(name,size,md5Hash,generation,updated),nextPageToken"
        with as_live_errors(f"listing gs://{self.name}/{prefix}", _MAY):
            return tuple(self._bucket.list_blobs(prefix=prefix, fields=fields, **self._how))

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Names of the folders directly below a prefix that ends with a slash."""
        with as_live_errors(f"listing gs://{self.name}/{prefix}", _MAY):
            listing = self._bucket.list_blobs(
                prefix=prefix, delimiter="/", fields="prefixes,nextPageToken", **self._how
            )
            for _ in listing.pages:
                pass  # each adds its prefixes
            return tuple(sorted(name[len(prefix) :].rstrip("/") for name in listing.prefixes))

    def read(self, name: str) -> bytes | None:
        """A small object's content; None if it does not exist."""
        with as_live_errors(f"reading gs://{self.name}/{name}", _MAY):
            try:
                return bytes(self._bucket.blob(name).download_as_bytes(**self._how))
            except NotFound:
                return None

    def create(self, name: str, content: bytes) -> None:
        """Store a new object. Where it exists with this content, as after a lost answer, nothing is sent; other content is an error."""
        what = f"writing gs://{self.name}/{name}"
        with as_live_errors(what, _MAY_WRITE):
            try:
                self._bucket.blob(name).upload_from_string(content, if_generation_match=0, **_SENT, **self._how)
            except PreconditionFailed:
                if self.read(name) != content:
                    raise LiveError(f"{what}: it exists with other content", reason="already exists") from None

    def read_version(self, name: str) -> tuple[bytes | None, int]:
        """A small object's content and its generation; None and 0 if it does not exist."""
        with as_live_errors(f"reading gs://{self.name}/{name}", _MAY):
            while True:
                blob = self._bucket.get_blob(name, **self._how)
                if blob is None:
                    return None, 0
                with contextlib.suppress(NotFound):  # Replaced meanwhile.
                    return bytes(blob.download_as_bytes(**self._how)), int(blob.generation)

    def replace(self, name: str, content: bytes, generation: int) -> bool:
        """Store an object in place of that generation, or with 0 where none is. False: another is there, and stays."""
        with as_live_errors(f"writing gs://{self.name}/{name}", _MAY_WRITE):
            try:
                self._bucket.blob(name).upload_from_string(
                    content, if_generation_match=generation, **_SENT, **self._how
                )
            except PreconditionFailed:
                # This very content: stored by an attempt whose answer was lost.
                return self.read(name) == content
            return True

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is not an error."""
        with as_live_errors(f"deleting gs://{self.name}/{name}", _MAY_WRITE), contextlib.suppress(NotFound):
            self._bucket.blob(name).delete(**self._how)

    def download(self, name: str, place: Path, progress: Callable[[int, int], None] = lambda _done, _all: None) -> None:
        """Download one object as `mirror` does."""
        found = next((blob for blob in self.list_all(name) if blob.name == name), None)
        if found is None:
            raise LiveError(f"gs://{self.name}/{name}: not found", reason="not found")
        progress(0, found.size)
        self._fetch(found, place)
        progress(found.size, found.size)

    def mirror(
        self, prefix: str, folder: Path, *, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> tuple[Path, ...]:
        """Mirrors all objects below `prefix` (which ends with a slash) to `folder`, except folders that start with a dot.

        Each file appears when it is complete and verified. An existing file with the right content is not fetched again. `progress`
        receives bytes done and total.
        """
        wanted = [
            (blob, _place(prefix, blob.name, folder)) for blob in self.list_all(prefix) if _belongs(prefix, blob.name)
        ]
        missing = [(blob, place) for blob, place in wanted if not (place.is_file() and _is_right(place, blob))]
        total = sum(blob.size for blob, _ in wanted)
        done = total - sum(blob.size for blob, _ in missing)
        progress(done, total)

        def fetch(one: tuple[Blob, Path]) -> int:
            self._fetch(*one)
            return int(one[0].size)

        def count(size: int) -> None:
            nonlocal done
            done += size
            progress(done, total)

        side_by_side(fetch, missing, AT_ONCE, count)
        return tuple(place for _, place in wanted)

    def _fetch(self, blob: Blob, place: Path) -> None:
        # A thread of a fetch that failed before may still write its own.
        part = place.with_name(f".{place.name}.{threading.get_native_id()}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        what = f"fetching gs://{self.name}/{blob.name}"
        with as_live_errors(what, _MAY):
            try:
                # As stored: by default Cloud Storage decompresses gzip-encoded objects, which changes their size.
                blob.download_to_filename(str(part), raw_download=True, checksum=None, **self._how)
                if not _is_right(part, blob):
                    raise LiveError(
                        f"{what}: size or MD5 differs from the stored object; fetch again", reason="unreachable"
                    )
            except Exception:
                part.unlink(missing_ok=True)
                raise
            # Renamed only now: readers never see a partial file.
            part.replace(place)


def _belongs(prefix: str, name: str) -> bool:
    """Whether an object is part of a measurement: progress, in a folder that starts with a dot, is not."""
    # A name that ends with a slash is a folder placeholder created by the console.
    folders = name[len(prefix) :].split("/")[:-1]
    return not name.endswith("/") and not any(
        folder.startswith(".") and folder not in (".", "..") for folder in folders
    )


def _place(prefix: str, name: str, folder: Path) -> Path:
    parts: Sequence[str] = name[len(prefix) :].split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise LiveError(f"object {name!r} is not a valid relative path; nothing was fetched")
    return folder.joinpath(*parts)


def _is_right(path: Path, blob: Blob) -> bool:
    """Whether a file has the object's size and, if known, MD5."""
    if path.stat().st_size != blob.size:
        return False
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return blob.md5_hash in (None, base64.b64encode(digest.digest()).decode())
