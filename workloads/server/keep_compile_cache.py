"""Restores a release's compile caches in a server pod, and stores them once. A standalone program for pods.

`restore OPTIONS -- PROGRAM [ARGUMENT ...]` runs before the server: it fetches the archive of this key, unpacks it and becomes the
program. Any error or timeout leaves an empty cache: a cold start.
`save OPTIONS` runs beside the server: when the server is healthy and before the pod is ready, it stores the archive under this key
unless one exists. It never stores a cache after the pod's first request. docs/decisions/07-server.md gives the reasons.

An archive is an uncompressed tar file of regular files, so that its size bounds the disk space. Its object's name has the key.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO

FOLDERS = ("vllm", "inductor", "triton", "flashinfer", "cute-dsl", "tvm-ffi", "cuda")
MAX_BYTES = 8 * 2**30
CHUNK = 2**20
STEP_SECONDS = 20.0
TOKEN_PAUSES = (1.0, 2.0, 4.0)
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path

Listing = dict[str, tuple[int, float, int]]
"""Files by path below the cache: size, modification time, mode."""


class CacheError(Exception):
    """The archive cannot be used or stored."""


class AbsentError(CacheError):
    """The key has no archive, or the pod lacks permission to see it."""


# Cloud Storage


class Store:
    """The object of a key, accessed with the pod's identity."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.storage, self.through, self.metadata = options.storage, options.through, options.metadata
        self.bucket, self.name = options.bucket, f"{options.key}/compile-cache.tar"

    def find(self) -> None:
        """Raises AbsentError unless the key has an archive."""
        self._get({}).close()

    def fetch(self, file: IO[bytes]) -> int:
        """Writes the archive to `file`, rewinds it and returns its size."""
        with closing(self._get({"alt": "media"})) as answer:
            size = bounded(int(answer.headers.get("Content-Length", -1)))
            shutil.copyfileobj(answer, file, CHUNK)
        # http.client takes a connection that ends early for an answer's end, and tarfile a file that ends between two others.
        if file.tell() != size:
            raise CacheError(f"received {file.tell()} of {size} bytes")
        file.seek(0)
        return size

    def create(self, file: IO[bytes], size: int) -> bool:
        """Stores the archive; returns False if one exists, which stays."""
        query = urllib.parse.urlencode({"uploadType": "media", "name": self.name, "ifGenerationMatch": "0"})
        headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
        path = f"/upload/storage/v1/b/{self.bucket}/o?{query}"
        answer = self._request("POST", path, body=file, headers=headers)
        with closing(answer):
            if answer.status == 412:
                return False
            if answer.status != 200:
                raise CacheError(f"HTTP {answer.status}: {answer.read(300).decode(errors='replace')}")
            stored = int(json.load(answer).get("size", -1))
        if stored != size:
            raise CacheError(f"sent {size} bytes, the bucket has {stored}")
        return True

    def _get(self, query: dict[str, str]) -> http.client.HTTPResponse:
        path = f"/storage/v1/b/{self.bucket}/o/{urllib.parse.quote(self.name, safe='')}"
        answer = self._request("GET", f"{path}?{urllib.parse.urlencode(query)}")
        if answer.status == 200:
            return answer
        with closing(answer):
            problem = (
                f"gs://{self.bucket}/{self.name}: HTTP {answer.status}: {answer.read(300).decode(errors='replace')}"
            )
        # 403 also means "absent" without permission to list the bucket.
        raise (AbsentError if answer.status in (403, 404) else CacheError)(problem)

    def _request(
        self, method: str, path: str, body: IO[bytes] | None = None, headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        url = urllib.parse.urlsplit(self.storage)
        host, tls = str(url.hostname), url.scheme == "https"
        bearer = {"Authorization": f"Bearer {self._token()}"}
        connection = http.client.HTTPConnection(url.netloc, timeout=STEP_SECONDS, blocksize=CHUNK)
        # Connect to the address that the pod's network policy allows, not the name's own.
        plain = socket.create_connection((self.through or host, url.port or (443 if tls else 80)), STEP_SECONDS)
        connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if tls else plain
        connection.request(method, path, body=body, headers={**bearer, **(headers or {}), "Connection": "close"})
        return connection.getresponse()

    def _token(self) -> str:
        """Asked again: the metadata server answers some seconds after a pod's start.

        Source: GKE docs, "About Workload Identity Federation for GKE", limitations.
        """
        request = urllib.request.Request(f"{self.metadata}{TOKEN_PATH}", headers={"Metadata-Flavor": "Google"})  # noqa: S310
        for pause in (*TOKEN_PAUSES, None):
            try:
                with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:  # noqa: S310
                    return str(json.load(answer)["access_token"])
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                problem = str(error) or type(error).__name__
            if pause is not None:
                time.sleep(pause)
        raise CacheError(f"the metadata server gives no token: {problem}")


# The archive


def bounded(size: int) -> int:
    """The size. Raises CacheError if it is above the limit."""
    if size > MAX_BYTES:
        raise CacheError(f"{size} bytes are more than {MAX_BYTES}")
    return size


def files_of(cache: Path) -> Listing:
    """Every regular file of the compile caches, without links."""
    found: Listing = {}
    for folder in FOLDERS:
        for parent, _, names in os.walk(cache / folder):
            for name in names:
                path = Path(parent, name)
                about = path.lstat()
                if path.is_file() and not path.is_symlink():
                    listed = path.relative_to(cache).as_posix()
                    found[listed] = (about.st_size, about.st_mtime, about.st_mode & 0o777)
    return found


def pack(cache: Path, file: IO[bytes]) -> int:
    """Writes the archive of `cache` to `file`, rewinds it and returns its size. Raises CacheError if a file changes meanwhile."""
    listing = files_of(cache)
    if not listing:
        raise CacheError(f"{cache} holds no compiled file")
    bounded(sum(size for size, _, _ in listing.values()))
    # PAX has times with fractions of a second: ninja, under FlashInfer, recompiles files older than their source.
    # With `dereference`, a file of two names is two files and no link.
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar:
        for name in sorted(listing):
            tar.add(cache / name, name, recursive=False)
    if files_of(cache) != listing:
        raise CacheError(f"{cache} changed while it was read")
    size = bounded(file.tell())
    file.seek(0)
    return size


def unpack(file: IO[bytes], into: Path) -> int:
    """Unpacks an archive below `into` and returns the number of files. Raises CacheError for anything but a regular file in a
    known folder, and for a second file of one name.
    """

    def caches_only(entry: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        path = PurePosixPath(entry.name)
        known = len(path.parts) > 1 and path.parts[0] in FOLDERS and ".." not in path.parts
        if not known or not entry.isreg() or entry.issparse() or (into / path).exists():
            raise CacheError(f"it holds {entry.name!r}, which is no file of the caches")
        return tarfile.data_filter(entry, folder)

    # With 2, a time or mode that cannot be set is an error, too.
    with tarfile.open(fileobj=file, mode="r:", errorlevel=2) as tar:
        tar.extractall(into, filter=caches_only)  # noqa: S202 - the filter refuses what does not belong there
        return len(tar.getmembers())


# The two programs


def say(text: str) -> None:
    """Prints one line to the container's log."""
    sys.stderr.write(f"compile cache: {text}\n")
    sys.stderr.flush()


def attempt(seconds: float, action: Callable[[], str], otherwise: str) -> bool:
    """Runs `action` for at most this long, logs how it ended, and returns whether it succeeded."""

    def end(*_: object) -> None:
        raise CacheError(f"given up after {seconds:.0f} s")

    begun = time.monotonic()
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        said = action()
    except AbsentError as error:
        say(f"{otherwise}: none of this key ({error})")
        return False
    except Exception as error:  # any error: the server starts without the cache
        say(f"{otherwise}: {error or type(error).__name__}")
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    say(f"{said} in {time.monotonic() - begun:.1f} s")
    return True


def restore(options: argparse.Namespace) -> None:
    """Fills the cache, or leaves it empty."""
    cache = Path(options.cache)
    if any((cache / folder).exists() for folder in FOLDERS):
        return say("there already, from this pod's former container")
    staging = Path(tempfile.mkdtemp(prefix=".restoring-", dir=cache))

    def fetch() -> str:
        # Unlinked: nothing remains if the container is killed.
        with tempfile.TemporaryFile(dir=cache) as file:
            size = Store(options).fetch(file)
            return f"{unpack(file, staging)} files, {size / 1e6:.0f} MB restored"

    try:
        if attempt(options.limit_seconds, fetch, "cold start"):
            for folder in sorted(staging.iterdir()):
                folder.rename(cache / folder.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def save(options: argparse.Namespace) -> None:
    """Stores the caches once, then creates the file that makes the pod ready."""
    state = Path(options.state)
    begun, done = state / "begun", state / "done"

    def store() -> str:
        with tempfile.TemporaryFile(dir=state) as file:
            size = pack(Path(options.cache), file)
            return f"{size / 1e6:.0f} MB " + (
                "stored" if Store(options).create(file, size) else "not stored, there is one"
            )

    def needed() -> str:
        Store(options).find()
        return "stored already, found"

    # After a restart of this container, the server may have answered requests: store nothing.
    if not begun.exists() and not attempt(options.limit_seconds, needed, "to be stored once the server is healthy"):
        while not healthy(options.health):
            time.sleep(1)
        begun.touch()
        attempt(options.limit_seconds, store, "not stored")
    begun.touch()
    done.touch()


def healthy(url: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the pod's own server
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Options of both programs."""
    parser = argparse.ArgumentParser(prog="keep_compile_cache")
    parser.add_argument("action", choices=("restore", "save"))
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--limit-seconds", type=float, required=True)
    parser.add_argument("--through", default="")
    parser.add_argument("--storage", default="https://storage.googleapis.com")
    parser.add_argument("--metadata", default="http://metadata.google.internal")
    parser.add_argument("--health", default="")
    parser.add_argument("--state", default="")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Restore and become the program, or save and wait for the pod to end."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, program = options_of(arguments[:split]), arguments[split + 1 :]
    if options.action == "restore":
        try:
            restore(options)
        except Exception as error:  # a full disk, a folder of another owner: the server starts cold
            say(f"cold start: {error}")
        os.execvp(program[0], program)  # noqa: S606 - no shell is the point
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    save(options)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
