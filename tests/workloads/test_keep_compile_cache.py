"""The program that keeps compile caches, as pods run it: real processes, and a bucket on loopback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.simulators.bucket import LocalBucket
from tests.support.simulators.local_server import Answer, Request
from tests.support.waiting import until
from workloads.pod_programs import python_program
from workloads.server import keep_compile_cache as program

CODE = python_program("server/keep_compile_cache.py")
KEY = "a" * 64
OBJECT = f"{KEY}/compile-cache.tar"
KERNEL = "triton/ab/kernel.cubin"
SERVER = [sys.executable, "-c", "import sys; print('started', sys.argv[1])", "anyway"]


class Cloud(LocalBucket):
    """A bucket with a server's /health beside it, and answers that can be spoilt."""

    healthy = True
    spoilt: Callable[[Request], Answer | None] = staticmethod(lambda _: None)

    def answer(self, request: Request) -> Answer:
        if request.path == "/health":
            return Answer(200 if self.healthy else 503, b"")
        return self.spoilt(request) or super().answer(request)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    # It would overwrite, so that only what a request says keeps an object.
    with Cloud("caches", overwritable=lambda _: True) as bucket:
        yield bucket


def command(action: str, cloud: Cloud, cache: Path, *more: str) -> list[str]:
    known = [f"--bucket={cloud.name}", f"--key={KEY}", f"--cache={cache}", "--limit-seconds=20"]
    return [sys.executable, "-c", CODE, action, *known, f"--storage={cloud.url}", f"--metadata={cloud.url}", *more]


def restore(cloud: Cloud, cache: Path, *more: str) -> subprocess.CompletedProcess[str]:
    if cache.parent.is_dir():
        cache.mkdir(exist_ok=True)
    return subprocess.run(
        [*command("restore", cloud, cache, *more), "--", *SERVER],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def filled(cache: Path) -> Path:
    for name, content in ((KERNEL, b"machine code"), ("vllm/torch_compile_cache/x/rank_0_0/graph.py", b"pass\n")):
        file = cache / name
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    (cache / KERNEL).chmod(0o755)
    os.utime(cache / KERNEL, ns=(10**18 + 123_456_789,) * 2)
    (cache / "huggingface").mkdir()
    (cache / "huggingface" / "token").write_text("secret")
    (cache / "triton" / "link").symlink_to("/etc/passwd")
    return cache


@contextmanager
def saver(cloud: Cloud, cache: Path, state: Path) -> Iterator[subprocess.Popen[str]]:
    state.mkdir(exist_ok=True)
    arguments = command("save", cloud, cache, f"--health={cloud.url}/health", f"--state={state}")
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(30) == 0


def save(cloud: Cloud, cache: Path, state: Path) -> None:
    with saver(cloud, cache, state):
        until((state / "done").exists)


def archive(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive of anything."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return body.getvalue()


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def test_what_one_pod_compiled_another_finds(cloud: Cloud, tmp_path: Path) -> None:
    save(cloud, filled(tmp_path / "first"), tmp_path / "state")
    assert list(cloud.objects) == [OBJECT]

    ran = restore(cloud, tmp_path / "second")

    assert ran.stdout == "started anyway\n"
    assert "2 files" in ran.stderr
    kernel = tmp_path / "second" / KERNEL
    assert kernel.read_bytes() == b"machine code"
    about = kernel.stat()
    assert (about.st_mtime, about.st_mode & 0o777) == ((10**18 + 123_456_789) / 10**9, 0o755)
    # Neither what is no compile cache, nor a link, nor what the restoring needed for itself.
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == ["triton", "vllm"]
    assert not (tmp_path / "second" / "triton" / "link").is_symlink()


def test_a_file_with_two_names_is_two_files(tmp_path: Path) -> None:
    kernel = filled(tmp_path / "first") / KERNEL
    kernel.with_name("again").hardlink_to(kernel)
    with (tmp_path / "archive").open("w+b") as file:
        program.pack(tmp_path / "first", file)
        assert program.unpack(file, tmp_path / "second") == 3
    assert (tmp_path / "second" / KERNEL).with_name("again").read_bytes() == b"machine code"


def test_a_file_gets_no_more_rights_than_a_cache_needs(tmp_path: Path) -> None:
    entry = named("vllm/a")
    entry.mode = 0o6777
    program.unpack(io.BytesIO(archive((entry, b"x"))), tmp_path)
    assert (tmp_path / "vllm" / "a").stat().st_mode & 0o7777 == 0o755


BROKEN = {
    "empty": b"",
    "no-archive": b"<html>busy</html>" * 100,
    "cut-in-a-file": archive((named("vllm/a"), b"x" * 5000))[:2000],
    "climbs-out": archive((named("vllm/../../evil"), b"x")),
    "climbs-into-another-folder": archive((named("vllm/../huggingface/token"), b"x")),
    "absolute": archive((named("/vllm/evil"), b"x")),
    "other-folder": archive((named("huggingface/token"), b"x")),
    "folder-itself": archive((named("vllm"), b"x")),
    "folder": archive((named("vllm/a", tarfile.DIRTYPE), b"")),
    "link": archive((named("vllm/a", tarfile.SYMTYPE, "/"), b"")),
    "hard-link": archive((named("vllm/b"), b"x"), (named("vllm/a", tarfile.LNKTYPE, "vllm/b"), b"")),
    "device": archive((named("vllm/a", tarfile.FIFOTYPE), b"")),
    "sparse": archive((named("vllm/a", tarfile.GNUTYPE_SPARSE), b"")),
    "twice": archive((named("vllm/a"), b"1"), (named("vllm/a"), b"2")),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with pytest.raises((program.CacheError, tarfile.TarError)):
        program.unpack(io.BytesIO(content), tmp_path / "second")
    assert not [path for path in tmp_path.rglob("*") if path.name in ("evil", "token")]


def answers(part: str, answer: Callable[[], Answer | None]) -> Callable[[Request], Answer | None]:
    """What a request gets whose path has this part."""
    return lambda request: answer() if part in request.path else None


def hanging() -> None:
    time.sleep(4)


SOUND = archive((named("vllm/new"), b"x"))
SHORT = Answer(200, SOUND[:1024], {"Content-Length": str(len(SOUND))})
COLD: dict[str, tuple[bytes | None, Callable[[Request], Answer | None], float]] = {
    "absent": (None, lambda _: None, 20),
    "climbs-out": (BROKEN["climbs-out"], lambda _: None, 20),
    "twice": (BROKEN["twice"], lambda _: None, 20),
    "short": (SOUND, answers("/o/", lambda: SHORT), 20),
    "fails": (SOUND, answers("/o/", lambda: Answer(500, b"no")), 20),
    "hangs": (SOUND, answers("/o/", hanging), 0.5),
    "token-hangs": (SOUND, answers("token", hanging), 0.5),
}
"""What is stored, what else is answered, and the limit in seconds."""


@pytest.mark.slow
@pytest.mark.parametrize(("stored", "spoilt", "limit"), COLD.values(), ids=COLD)
def test_a_cold_start(
    stored: bytes | None,
    spoilt: Callable[[Request], Answer | None],
    limit: float,
    cloud: Cloud,
    tmp_path: Path,
) -> None:
    cloud.spoilt = spoilt
    cloud.put(f"{'c' * 64}/compile-cache.tar", SOUND)
    if stored is not None:
        cloud.put(OBJECT, stored)
    begun = time.monotonic()
    ran = restore(cloud, tmp_path / "cache", f"--limit-seconds={limit}")
    assert ran.stdout == "started anyway\n"
    assert "cold start" in ran.stderr
    assert time.monotonic() - begun < 4
    assert list((tmp_path / "cache").iterdir()) == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
def test_caches_of_a_former_container_stay(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put(OBJECT, SOUND)
    (tmp_path / "cache" / "triton").mkdir(parents=True)
    restore(cloud, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["triton"]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_a_cold_start(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    ran = restore(cloud, tmp_path / "file" / "cache")
    assert ran.stdout == "started anyway\n"


@pytest.mark.slow
def test_a_metadata_server_that_is_not_up_yet_is_asked_again(cloud: Cloud, tmp_path: Path) -> None:
    """It needs some seconds after a pod's start."""
    cloud.put(OBJECT, SOUND)
    refusals = [Answer(404, b"no pod of this address")]
    cloud.spoilt = answers("token", lambda: refusals.pop() if refusals else None)
    restore(cloud, tmp_path / "cache")
    assert not refusals
    assert (tmp_path / "cache" / "vllm" / "new").read_bytes() == b"x"


@pytest.mark.slow
def test_nothing_is_stored_before_the_server_is_healthy(cloud: Cloud, tmp_path: Path) -> None:
    cloud.healthy = False
    asked: list[str] = []

    def spoilt(request: Request) -> Answer | None:
        asked.append(request.method)
        return None

    cloud.spoilt = spoilt
    with saver(cloud, tmp_path / "cache", tmp_path / "state"):
        until(lambda: "GET" in asked)
        # Compiled after the saver began.
        filled(tmp_path / "cache")
        assert not cloud.objects
        assert not (tmp_path / "state" / "done").exists()
        cloud.healthy = True
        until((tmp_path / "state" / "done").exists)
    assert list(cloud.objects) == [OBJECT]


def absent(request: Request) -> Answer | None:
    return Answer(404, b"") if request.method == "GET" and "/o/" in request.path else None


NOT_STORED: dict[str, tuple[Callable[[Cloud, Path], object], Callable[[Request], Answer | None]]] = {
    # Of two pods that start at once, the first stores.
    "stored-meanwhile": (lambda cloud, _: cloud.put(OBJECT, b"first"), absent),
    "there-already": (lambda cloud, _: cloud.put(OBJECT, b"first"), lambda _: None),
    # The server of a saver that is started again may have answered requests since.
    "begun-before": (lambda _, state: (state / "begun").touch(), lambda _: None),
    "no-permission": (lambda *_: None, lambda request: Answer(403, b"no") if request.method == "POST" else None),
    "fails": (lambda *_: None, lambda request: Answer(500, b"no") if request.method == "POST" else None),
}
"""What was before, and what else is answered."""


@pytest.mark.slow
@pytest.mark.parametrize(("before", "spoilt"), NOT_STORED.values(), ids=NOT_STORED)
def test_nothing_is_stored_and_the_pod_is_ready(
    before: Callable[[Cloud, Path], object], spoilt: Callable[[Request], Answer | None], cloud: Cloud, tmp_path: Path
) -> None:
    cloud.spoilt = spoilt
    (tmp_path / "state").mkdir()
    before(cloud, tmp_path / "state")
    were = dict(cloud.objects)
    save(cloud, filled(tmp_path / "cache"), tmp_path / "state")
    assert cloud.objects == were


@pytest.mark.slow
def test_another_address_than_the_names_own(cloud: Cloud, tmp_path: Path) -> None:
    """`--through` connects there, and asks for the storage by its own name."""
    asked: list[str] = []

    def spoilt(request: Request) -> Answer | None:
        asked.append(str(request.headers["Host"]))
        return None

    cloud.spoilt = spoilt
    port = cloud.url.rpartition(":")[2]
    restore(cloud, tmp_path / "cache", f"--storage=http://storage.invalid:{port}", "--through=127.0.0.1")
    assert asked[-1] == f"storage.invalid:{port}"


def test_a_file_that_changes_while_it_is_packed_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, listed = filled(tmp_path / "cache"), program.files_of

    def growing(folder: Path) -> program.Listing:
        found = listed(folder)
        (cache / "vllm" / f"more-{len(found)}").touch()
        return found

    monkeypatch.setattr(program, "files_of", growing)
    with (tmp_path / "archive").open("w+b") as file, pytest.raises(program.CacheError, match="changed"):
        program.pack(cache, file)


@pytest.mark.parametrize(("limit", "written"), [(16, False), (4096, True)], ids=["files", "archive"])
def test_caches_above_the_limit_are_neither_packed_nor_fetched(
    limit: int, written: bool, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two small files are below a limit that their archive is above; files above it are not even read."""
    monkeypatch.setattr(program, "MAX_BYTES", limit)
    with (tmp_path / "archive").open("w+b") as file, pytest.raises(program.CacheError, match="more than"):
        program.pack(filled(tmp_path / "cache"), file)
    assert bool((tmp_path / "archive").stat().st_size) is written
    cloud.put(OBJECT, b"x" * 5000)
    options = program.options_of(command("restore", cloud, tmp_path)[3:])
    with (tmp_path / "fetched").open("w+b") as file, pytest.raises(program.CacheError, match="more than"):
        program.Store(options).fetch(file)
    assert (tmp_path / "fetched").stat().st_size == 0
