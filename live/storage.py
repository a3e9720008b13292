"""The results bucket from a laptop: list, read, and mirror a folder, checked byte for byte, resumed where it broke off."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from live.errors import LiveError
from live.google_http import GoogleHttp
from live.side_by_side import side_by_side

STORAGE_URL: Final = "https://storage.googleapis.com"
ENDPOINT_VARIABLE: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
"""gcloud's own variable for another endpoint, e.g. one of Private Service Connect. Source: gcloud docs, api_endpoint_overrides."""
PARALLEL: Final = 8
"""Downloads at once. Assumed: results are tens of megabytes each, and a laptop's line is full with a few."""
ATTEMPTS: Final = 5
"""Per object, in a row without a byte more than before: a line that drops every few megabytes gets there, too."""
_CHUNK: Final = 1 << 20
_MAY: Final = "roles/storage.objectViewer on the bucket"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of the bucket."""

    name: str
    size: int
    """Bytes."""
    md5: str | None
    """Base64, as Cloud Storage gives it; None for a composite object."""
    generation: str
    updated: float
    """Seconds since 1970, by the bucket's clock."""


class Bucket:
    """One bucket, read with the user's own token. All methods raise LiveError."""

    def __init__(self, name: str, http_: GoogleHttp, *, url: str | None = None) -> None:
        """`url`: where Cloud Storage is; default: what gcloud's endpoint override says, else Google's own."""
        self.name = name
        self._http = http_
        given = url or os.environ.get(ENDPOINT_VARIABLE) or STORAGE_URL
        # gcloud's override carries the API's path, ours does not.
        self._url = given.rstrip("/").removesuffix("/storage/v1")

    def list_all(self, prefix: str) -> tuple[StoredObject, ...]:
        """Every object below a prefix, by name."""
        query = {"prefix": prefix, "fields": "items(name,size,md5Hash,generation,updated),nextPageToken"}
        found: list[StoredObject] = []
        while True:
            page = self._http.json(f"listing gs://{self.name}/{prefix}", self._api(query), may=_MAY)
            found += [
                StoredObject(
                    name=str(item["name"]),
                    size=int(item["size"]),
                    md5=item.get("md5Hash"),
                    generation=str(item["generation"]),
                    updated=datetime.fromisoformat(str(item["updated"]).replace("Z", "+00:00")).timestamp(),
                )
                for item in page.get("items", ())
            ]
            if not page.get("nextPageToken"):
                return tuple(sorted(found, key=lambda one: one.name))
            query["pageToken"] = page["nextPageToken"]

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Names of the folders right below a prefix that ends with a slash."""
        query = {"prefix": prefix, "delimiter": "/", "fields": "prefixes,nextPageToken"}
        found: list[str] = []
        while True:
            page = self._http.json(f"listing gs://{self.name}/{prefix}", self._api(query), may=_MAY)
            found += [str(name)[len(prefix) :].rstrip("/") for name in page.get("prefixes", ())]
            if not page.get("nextPageToken"):
                return tuple(sorted(found))
            query["pageToken"] = page["nextPageToken"]

    def read(self, name: str) -> bytes | None:
        """A small object's content; None where there is none of that name."""
        what = f"reading gs://{self.name}/{name}"
        try:
            return self._http.content(what, f"{self._object(name)}?alt=media", may=_MAY)
        except LiveError as error:
            if error.reason == "not found":
                return None
            raise

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
            (one, _place(prefix, one.name, folder)) for one in self.list_all(prefix) if _belongs(prefix, one.name)
        ]
        stop = threading.Event()
        counted = _Counted(sum(one.size for one, _ in wanted), progress, stop)
        try:
            side_by_side(lambda pair: self._fetch(*pair, counted, stop), wanted, parallel)
        finally:
            stop.set()
        return tuple(place for _, place in wanted)

    def _fetch(self, one: StoredObject, place: Path, counted: _Counted, stop: threading.Event) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_file() and place.stat().st_size == one.size and one.md5 and _md5(place) == one.md5:
            counted.add(one.size)
            return
        part = place.with_name(f".{place.name}.{one.generation}.part")
        counted.add(_size(part))
        pause, fruitless, most = self._http.pause_seconds, 0, _size(part)
        while True:
            problem = self._continue(one, part, counted, stop)
            if problem is None:
                # Under its name only now: a reader never sees half a file.
                part.replace(place)
                return
            if stop.is_set():
                return
            if (have := _size(part)) > most:
                pause, fruitless, most = self._http.pause_seconds, 0, have
            else:
                fruitless += 1
            if fruitless == ATTEMPTS:
                break
            stop.wait(pause)
            pause *= 2
        raise LiveError(
            f"fetching gs://{self.name}/{one.name}: {problem}, {ATTEMPTS} times. What is here is kept; fetch again to go on",
            reason="unreachable",
        )

    def _continue(self, one: StoredObject, part: Path, counted: _Counted, stop: threading.Event) -> str | None:
        """Append what is missing and check the whole; what was wrong, or None."""
        have = _size(part)
        what = f"fetching gs://{self.name}/{one.name}"
        if have < one.size:
            url = f"{self._object(one.name)}?alt=media&generation={one.generation}"
            # As stored: unasked, Cloud Storage unpacks objects with Content-Encoding gzip, and their size differs then.
            headers = {"Accept-Encoding": "gzip", **({"Range": f"bytes={have}-"} if have else {})}
            try:
                with self._http.open(what, url, may=_MAY, headers=headers) as response:
                    if have and response.status != 206:
                        counted.add(-have)
                        have = 0
                    with part.open("ab" if have else "wb") as file:
                        while chunk := response.read(_CHUNK):
                            if stop.is_set():
                                return "stopped"
                            file.write(chunk)
                            counted.add(len(chunk))
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, OSError) and error.filename is not None:
                    raise LiveError(f"{what}: cannot write {error.filename}: {error.strerror}") from None
                return f"the download broke off: {error or type(error).__name__}"
        elif not part.exists():
            part.touch()  # an empty object
        size = part.stat().st_size
        if size < one.size:
            return f"the download broke off at {size} of {one.size} bytes"
        if size > one.size or (one.md5 is not None and _md5(part) != one.md5):
            part.unlink()
            counted.add(-size)
            return "what came is not what is stored (size or MD5 differs)"
        return None

    def _api(self, query: dict[str, str]) -> str:
        return f"{self._url}/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}"

    def _object(self, name: str) -> str:
        return f"{self._url}/storage/v1/b/{self.name}/o/{urllib.parse.quote(name, safe='')}"


class _Counted:
    """Bytes done, told on from many threads."""

    def __init__(self, total: int, progress: Callable[[int, int], None], stop: threading.Event) -> None:
        self._lock = threading.Lock()
        self._done, self._total, self._progress, self._stop = 0, total, progress, stop

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if not self._stop.is_set():
                self._progress(self._done, self._total)


def is_hidden(parts: Iterable[str]) -> bool:
    """Whether one of these folders begins with a dot: barrier markers and progress, which are no part of a measurement."""
    return any(part.startswith(".") and part not in (".", "..") for part in parts)


def _belongs(prefix: str, name: str) -> bool:
    # A name that ends with a slash is a folder's placeholder, as the console makes them.
    return not name.endswith("/") and not is_hidden(name[len(prefix) :].split("/")[:-1])


def _place(prefix: str, name: str, folder: Path) -> Path:
    parts: Sequence[str] = name[len(prefix) :].split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise LiveError(f"object {name!r} has a name that is no path below a folder; nothing was fetched")
    return folder.joinpath(*parts)


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return base64.b64encode(digest.digest()).decode()
