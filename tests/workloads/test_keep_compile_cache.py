"""The program that keeps compile caches, as pods run it: real processes, and a bucket on loopback."""

from __future__ import annotations

import io
import json
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
from tests.workloads.waiting import until
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
    with Cloud("caches") as bucket:
        yield bucket


def command(action: str, cloud: Cloud, cache: Path, *more: str, key: str = KEY) -> list[str]:
    known = [f"--bucket={cloud.name}", f"--key={key}", f"--cache={cache}", "--limit-seconds=20"]
    return [sys.executable, "-c", CODE, action, *known, f"--storage={cloud.url}", f"--metadata={cloud.url}", *more]


def restore(cloud: Cloud, cache: Path, *more: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    if cache.parent.is_dir():
        cache.mkdir(exist_ok=True)
    return subprocess.run(
        [*command("restore", cloud, cache, *more, key=key), "--", *SERVER],
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


def archive(*entries: tuple[tarfile.TarInfo, bytes], key: str = KEY) -> bytes:
    """A sound archive of anything."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    about = {"key": key, "bytes": len(body.getvalue()), "sha256": program.hashlib.sha256(body.getvalue()).hexdigest()}
    return json.dumps(about).encode().ljust(program.HEADER_BYTES) + body.getvalue()


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


def flipped(content: bytes) -> bytes:
    return content[:-2000] + bytes([content[-2000] ^ 1]) + content[-1999:]


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "header-only": lambda content: content[: program.HEADER_BYTES],
    "bit-flipped": flipped,
    "no-archive": lambda _: b"<html>busy</html>" * 100,
    "other-key": lambda content: content.replace(KEY.encode(), b"b" * 64, 1),
    "grown": lambda content: content + b"\0",
    "climbs-out": lambda _: archive((named("vllm/../../evil"), b"x")),
    "absolute": lambda _: archive((named("/vllm/evil"), b"x")),
    "other-folder": lambda _: archive((named("huggingface/token"), b"x")),
    "folder-itself": lambda _: archive((named("vllm"), b"x")),
    "link": lambda _: archive((named("vllm/a", tarfile.SYMTYPE, "/"), b"")),
    "hard-link": lambda _: archive((named("vllm/a", tarfile.LNKTYPE, "vllm/b"), b"")),
    "device": lambda _: archive((named("vllm/a", tarfile.FIFOTYPE), b"")),
    "twice": lambda _: archive((named("vllm/a"), b"1"), (named("vllm/a"), b"2")),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_refused(broken: Callable[[bytes], bytes], tmp_path: Path) -> None:
    with (tmp_path / "archive").open("w+b") as file:
        program.pack(filled(tmp_path / "first"), KEY, file)
        content = broken(file.read())
    (tmp_path / "second").mkdir()

    def opened() -> int:
        with (tmp_path / "archive").open("w+b") as file:
            file.write(content)
            program.checked(file, KEY, len(content))
            return program.unpack(file, tmp_path / "second")

    with pytest.raises((program.CacheError, FileExistsError)):
        opened()
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["half", "climbs-out", "twice", "another key's"])
def test_an_archive_that_is_broken_or_not_there_is_a_cold_start(broken: str, cloud: Cloud, tmp_path: Path) -> None:
    with (tmp_path / "archive").open("w+b") as file:
        program.pack(filled(tmp_path / "first"), KEY, file)
        cloud.put(OBJECT, BROKEN.get(broken, bytes)(file.read()))
    ran = restore(cloud, tmp_path / "second", key=KEY if broken in BROKEN else "c" * 64)
    assert ran.stdout == "started anyway\n"
    assert broken not in BROKEN or "cold start" in ran.stderr
    assert list((tmp_path / "second").iterdir()) == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
@pytest.mark.parametrize("hangs", ["token", "object"])
def test_a_bucket_that_hangs_delays_the_server_for_the_limit(hangs: str, cloud: Cloud, tmp_path: Path) -> None:
    def spoilt(request: Request) -> Answer | None:
        if ("token" in request.path) == (hangs == "token"):
            time.sleep(4)
        return None

    cloud.spoilt = spoilt
    begun = time.monotonic()
    ran = restore(cloud, tmp_path / "cache", "--limit-seconds=0.5")
    assert ran.stdout == "started anyway\n"
    assert "given up" in ran.stderr
    assert time.monotonic() - begun < 4
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
def test_caches_of_a_former_container_stay(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put(OBJECT, archive((named("vllm/new"), b"x")))
    (tmp_path / "cache" / "triton").mkdir(parents=True)
    restore(cloud, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["triton"]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_a_cold_start(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    ran = restore(cloud, tmp_path / "file" / "cache")
    assert ran.stdout == "started anyway\n"


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


@pytest.mark.slow
def test_what_is_stored_stays(cloud: Cloud, tmp_path: Path) -> None:
    """Of two pods that start at once, the first stores; the second is ready all the same."""
    cloud.put(OBJECT, b"first")
    cloud.spoilt = lambda request: Answer(404, b"") if request.method == "GET" and "/o/" in request.path else None
    save(cloud, filled(tmp_path / "cache"), tmp_path / "state")
    assert cloud.objects[OBJECT].content == b"first"


@pytest.mark.slow
def test_a_saver_that_is_started_again_stores_nothing(cloud: Cloud, tmp_path: Path) -> None:
    """Its server may have answered requests since."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "begun").touch()
    save(cloud, filled(tmp_path / "cache"), tmp_path / "state")
    assert not cloud.objects


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 500])
def test_a_refused_store_holds_no_pod_back(status: int, cloud: Cloud, tmp_path: Path) -> None:
    cloud.spoilt = lambda request: Answer(status, b"no") if request.method == "POST" else None
    save(cloud, filled(tmp_path / "cache"), tmp_path / "state")
    assert not cloud.objects


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
        program.pack(cache, KEY, file)


def test_caches_above_the_limit_are_neither_packed_nor_fetched(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MAX_BYTES", 4096)
    with (tmp_path / "archive").open("w+b") as file, pytest.raises(program.CacheError, match="larger"):
        program.pack(filled(tmp_path / "cache"), KEY, file)
    cloud.put(OBJECT, b"x" * 5000)
    options = program.options_of(command("restore", cloud, tmp_path)[3:])
    with (tmp_path / "fetched").open("w+b") as file, pytest.raises(program.CacheError, match="larger"):
        program.Store(options).fetch(file)
