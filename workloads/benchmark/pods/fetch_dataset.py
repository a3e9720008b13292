"""Download a dataset and check its hash.

Arguments: URL SHA256 FILE. `https://` is read without credentials, `gs://BUCKET/OBJECT` with the pod's identity. An interrupted
transfer is resumed while the server has the same file; FILE exists once it is complete and its hash is right.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import logging
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .results_bucket import METADATA_URL, STORAGE_URL, pod_token

ATTEMPTS = 6
"""Failed attempts in a row; received bytes reset the count."""
BLOCK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60.0
LOG = logging.getLogger("fetch_dataset")


class FetchError(Exception):
    """The dataset cannot be downloaded; the message has its URL and the reason."""


@dataclass
class Source:
    """Where the file comes from."""

    url: str
    """As configured."""
    storage_url: str = STORAGE_URL
    metadata_url: str = METADATA_URL
    pause_seconds: float = 2.0
    """After the first attempt that fails; doubles after every further one."""

    def request(self, begin: int, version: str) -> urllib.request.Request:
        """From a byte on, of that version of the file. Raises FetchError when the URL is of no known kind."""
        headers = {"User-Agent": "vllm-fleet"}
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme == "gs":
            name = parts.path.lstrip("/")
            if not parts.netloc or not name:
                raise FetchError(f"{self.url} names no object; write gs://BUCKET/OBJECT")
            target = f"{self.storage_url}/storage/v1/b/{parts.netloc}/o/{urllib.parse.quote(name, safe='')}?alt=media"
            headers["Authorization"] = f"Bearer {pod_token(self.metadata_url)[0]}"
        elif parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")):
            target = self.url
        else:
            raise FetchError(f"{self.url}: https://... or gs://BUCKET/OBJECT is allowed")
        if begin:
            headers |= {"Range": f"bytes={begin}-", "If-Range": version}
        return urllib.request.Request(target, headers=headers)  # noqa: S310 - checked above


def fetch(source: Source, sha256: str, file: Path) -> None:
    """Download the file. Raises FetchError."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise FetchError(f"{sha256!r} is no SHA-256; 64 hexadecimal digits in small letters are allowed")
    if file.exists() and _hash(file) == sha256:
        LOG.info("%s is here already", file)
        return
    part = file.with_name(f"{file.name}.part")
    for whole_attempt in (1, 2):
        part.unlink(missing_ok=True)
        _transfer(source, part)
        found = _hash(part)
        if found == sha256:
            part.replace(file)
            LOG.info("%s: %d bytes, SHA-256 as asked", file, file.stat().st_size)
            return
        LOG.warning("%s: SHA-256 is %s, asked was %s (attempt %d of 2)", source.url, found, sha256, whole_attempt)
    size = part.stat().st_size
    part.unlink()
    raise FetchError(
        f"{source.url} is another file: SHA-256 of its {size} bytes is {found}, benchmark.dataset.sha256 is {sha256}"
    )


def _transfer(source: Source, part: Path) -> None:
    version, failures, pause = "", 0, source.pause_seconds
    while True:
        # Without a version, the rest could be of another file.
        before = part.stat().st_size if part.exists() and version else 0
        try:
            version = _receive(source, part, before, version)
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:
                return  # complete; the hash is checked next
            said = error.read(300).decode(errors="replace").strip()
            # With a token, 401 may mean that it expired; without one, permission denied.
            again = (401, 408, 429) if source.url.startswith("gs://") else (408, 429)
            if error.code < 500 and error.code not in again:
                raise FetchError(f"{source.url}: HTTP {error.code}: {said}") from None
            problem = f"HTTP {error.code}: {said}"
        except _InterruptedError as error:
            version, problem = error.version, str(error)
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        else:
            return
        if (part.stat().st_size if part.exists() else 0) > before:
            failures, pause = 0, source.pause_seconds
        failures += 1
        if failures == ATTEMPTS:
            raise FetchError(f"{source.url}: given up after {ATTEMPTS} attempts: {problem}")
        LOG.warning("%s: %s; again in %.0f s", source.url, problem, pause)
        time.sleep(pause)
        pause *= 2


class _InterruptedError(Exception):
    def __init__(self, version: str, problem: str) -> None:
        super().__init__(problem)
        self.version = version


def _receive(source: Source, part: Path, begin: int, version: str) -> str:
    """One request; gives the version of the file, "" where the server names no reliable one."""
    with urllib.request.urlopen(source.request(begin, version), timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
        tag = response.headers.get("ETag", "")
        new_version = "" if tag.startswith("W/") else tag
        goes_on = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {begin}-")
        if begin and response.status == 206 and not goes_on:
            raise _InterruptedError("", f"the answer is of another range: {response.headers.get('Content-Range')}")
        expected = response.headers.get("Content-Length")
        received = 0
        with part.open("ab" if goes_on else "wb") as out:
            try:
                while block := response.read(BLOCK_BYTES):
                    out.write(block)
                    received += len(block)
            except http.client.IncompleteRead as error:
                out.write(error.partial)
                raise _InterruptedError(new_version, "the transfer broke off") from None
            except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
                raise _InterruptedError(new_version, f"the transfer broke off: {error}") from None
        if expected is not None and received < int(expected):
            raise _InterruptedError(new_version, f"the transfer broke off after {received} of {expected} bytes")
        return new_version


def _hash(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Download one file. 1 and one line of explanation on failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("sha256")
    parser.add_argument("file", type=Path)
    parser.add_argument("--storage-url", default=STORAGE_URL)
    parser.add_argument("--metadata-url", default=METADATA_URL)
    options = parser.parse_args(arguments)
    source = Source(options.url, storage_url=options.storage_url, metadata_url=options.metadata_url)
    try:
        options.file.parent.mkdir(parents=True, exist_ok=True)
        fetch(source, options.sha256, options.file)
    except FetchError as error:
        sys.exit(f"cannot fetch the dataset: {error}")
    except OSError as error:
        sys.exit(f"cannot fetch the dataset {options.url} into {options.file}: {error}")
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    sys.exit(main())
