"""The programs of a rehearsal, built once from Go modules: Kubernetes, etcd and kwok, Helm where a stack has a chart, and a runner of
alert rules where a drill asserts alerts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.rehearse.control_plane import cache, go_command, toolchain
from fleet.rehearse.control_plane.cache import GIB, Progress
from fleet.rehearse.control_plane.toolchain import GO_FOLDER, Toolchain
from fleet.rehearse.results import RehearsalError

NEEDED_BYTES: Final = 5 * GIB
"""Room for a first build. Measured: 3.6 GB of compiled packages, 0.9 GB of modules, 0.35 GB of programs."""
UNUSED_DAYS: Final = 30
"""Programs of other versions are removed when nobody has used them for so long."""
_VERSION_SECONDS: Final = 60
SYSTEMS: Final = ("linux", "darwin")
"""Where a control plane runs: what sys.platform starts with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Programs of a control plane, each a file that runs."""

    etcd: Path
    api_server: Path
    controller_manager: Path
    scheduler: Path
    kwok: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Go module of ours that lists programs to build, or is one."""

    folder: str
    title: str
    module: str
    """The module whose version the programs tell."""
    packages: Mapping[str, str]
    """Program -> the package it is built from."""
    version_variables: tuple[str, ...] = ()
    """Variables that take the version when linked; a build from a module knows no tag."""
    asked_by: str = "--version"
    """What makes a program tell its version."""

    @property
    def files(self) -> tuple[Path, ...]:
        """go.mod, go.sum and a program of our own."""
        folder = GO_FOLDER / self.folder
        return folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))

    @property
    def version(self) -> str:
        """E.g. "v1.36.3", as go.mod pins it."""
        match = re.search(
            rf"^\s*{re.escape(self.module)} (v\S+)", self.files[0].read_text(encoding="utf-8"), re.MULTILINE
        )
        if match is None:
            raise ValueError(f"{self.files[0]} does not pin {self.module}")
        return match[1]

    @property
    def linker_flags(self) -> str:
        """No symbol tables, which nobody reads here and which double the size; and the version."""
        major, minor, *_ = self.version.removeprefix("v").split(".")
        values = {"gitVersion": self.version, "version": self.version, "gitMajor": major, "gitMinor": minor}
        settings = (f"-X {variable}={values[variable.rsplit('.', 1)[1]]}" for variable in self.version_variables)
        return " ".join(("-s", "-w", *settings))

    @property
    def key(self) -> str:
        """What the programs depend on, as a digest. Go's version is not part of it: a new patch release is no reason to build
        for five minutes.
        """
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(file.read_bytes())
        digest.update(f"{self.linker_flags} {sys.platform} {platform.machine()}".encode())
        return digest.hexdigest()[:16]

    @property
    def home(self) -> str:
        """Name of the folder with its programs, inside the cache."""
        return f"{self.folder}-{self.version}-{self.key}"


KUBERNETES: Final = Source(
    folder="kubernetes",
    title="Kubernetes",
    module="k8s.io/kubernetes",
    packages={
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    },
    version_variables=tuple(
        f"k8s.io/{package}/version.{variable}"
        for package in ("component-base", "client-go/pkg")
        for variable in ("gitVersion", "gitMajor", "gitMinor")
    ),
)
KWOK: Final = Source(
    folder="kwok", title="kwok", module="sigs.k8s.io/kwok", packages={"kwok": "sigs.k8s.io/kwok/cmd/kwok"}
)
ETCD: Final = Source(
    folder="etcd", title="etcd", module="go.etcd.io/etcd/server/v3", packages={"etcd": "go.etcd.io/etcd/server/v3"}
)
SOURCES: Final = (KUBERNETES, KWOK, ETCD)
"""What a control plane runs."""
HELM: Final = Source(
    folder="helm",
    title="Helm",
    module="helm.sh/helm/v3",
    packages={"helm": "helm.sh/helm/v3/cmd/helm"},
    version_variables=("helm.sh/helm/v3/internal/version.version",),
    asked_by="version",
)
PROMRULES: Final = Source(
    folder="promrules",
    title="Prometheus' rules engine",
    module="github.com/prometheus/prometheus",
    packages={"promrules": "vllm-fleet.dev/control-plane/promrules"},
    version_variables=("main.version",),
)
"""Measured: 1 minute on two busy cores, 22 MB."""


def binaries(progress: Progress) -> Binaries:
    """The programs of a control plane, built if they are not in the cache.

    A first build takes some minutes; an interrupted one goes on where it stopped. Raises RehearsalError.
    """
    kubernetes, kwok, etcd = (_provide(source, progress) for source in SOURCES)
    return Binaries(
        etcd=etcd / "etcd",
        api_server=kubernetes / "kube-apiserver",
        controller_manager=kubernetes / "kube-controller-manager",
        scheduler=kubernetes / "kube-scheduler",
        kwok=kwok / "kwok",
    )


def helm(progress: Progress) -> Path:
    """The `helm` command, built if it is not in the cache. Only a stack with a Helm release needs it. Raises RehearsalError."""
    return _provide(HELM, progress) / "helm"


def promrules(progress: Progress) -> Path:
    """The runner of alert rules, built if it is not in the cache. Only what asserts alerts needs it. Raises RehearsalError."""
    return _provide(PROMRULES, progress) / "promrules"


def is_built(*sources: Source) -> bool:
    """Whether every program of these sources is in the cache. Looks only."""
    return all(_is_complete(source, cache.place() / source.home) for source in sources)


def _require_system() -> None:
    if not sys.platform.startswith(SYSTEMS):
        raise RehearsalError(
            "a control plane runs on Linux and macOS; on Windows, rehearse in the Windows Subsystem for Linux"
        )


def _provide(source: Source, progress: Progress) -> Path:
    """The folder with the programs of a source, built if one is missing."""
    _require_system()
    folder = cache.folder()
    home = folder / source.home
    if _is_complete(source, home):
        os.utime(home)  # in use: see _remove_unused
        return home
    with cache.locked(folder, progress):
        if not _is_complete(source, home):  # another process may have built it meanwhile
            go = toolchain.find(folder, progress)
            cache.require_room(NEEDED_BYTES, cache=folder, reused=go.caches)
            _build(source, go, folder, home, progress)
            _remove_unused(source, folder, home)
    return home


def _is_complete(source: Source, home: Path) -> bool:
    return all((home / name).is_file() for name in source.packages)


def _build(source: Source, go: Toolchain, folder: Path, home: Path, progress: Progress) -> None:
    began = time.monotonic()
    # A copy: go must not touch the repository's files, and what is half done must not look done.
    work = folder / f"building-{source.folder}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for file in source.files:
        shutil.copy(file, work)
    progress(f"building {source.title} {source.version} with Go {go.version}, once; kept in {home}")
    try:
        packages = list(source.packages.values())
        total = _download(source, packages, go, work, progress)
        _compile(source, packages, go, work, progress, total)
        home.mkdir(exist_ok=True)
        for name, package in source.packages.items():
            built = work / "built" / _built_name(package)
            _check(source, name, built)
            built.replace(home / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if go.own_build_cache is not None:
        # 3 GB that only a change of version would use again.
        shutil.rmtree(go.own_build_cache, ignore_errors=True)
    progress(f"{source.title} {source.version} is built ({_duration(time.monotonic() - began)})")


def _download(source: Source, packages: list[str], go: Toolchain, work: Path, progress: Progress) -> int:
    """Fetch the modules; how many packages there are to compile at most."""
    fetched: list[str] = []

    def heard(line: str) -> None:
        if line.startswith("go: downloading "):
            fetched.append(line.removeprefix("go: downloading "))

    def heartbeat(seconds: float) -> None:
        latest = f", now {fetched[-1]}" if fetched else ""
        progress(f"{source.title}: {len(fetched)} modules fetched{latest} ({_duration(seconds)})")

    said = go_command.run(
        go,
        ["list", "-deps", *packages],
        folder=work,
        what=f"fetching the modules of {source.title}",
        heard=heard,
        heartbeat=heartbeat,
    )
    if fetched:
        progress(f"{source.title}: {len(fetched)} modules fetched and checked against go.sum")
    return sum(1 for line in said if line and not line.startswith("go: "))


def _compile(source: Source, packages: list[str], go: Toolchain, work: Path, progress: Progress, total: int) -> None:
    compiled = 0

    def heard(_line: str) -> None:
        nonlocal compiled
        compiled += 1

    def heartbeat(seconds: float) -> None:
        progress(
            f"{source.title}: compiling and linking; {compiled} packages compiled, of at most {total} that are not in Go's cache "
            f"({_duration(seconds)})"
        )

    go_command.run(
        go,
        # -s -w and a trimmed path: the same bytes on every machine with the same Go.
        ["build", "-v", "-trimpath", "-ldflags", source.linker_flags, "-o", f"built{os.sep}", *packages],
        folder=work,
        what=f"compiling {source.title}",
        heard=heard,
        heartbeat=heartbeat,
    )


def _built_name(package: str) -> str:
    """What `go build` calls the program of a package: its last element that is no major version."""
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


def _check(source: Source, name: str, program: Path) -> None:
    done = subprocess.run(
        [program, source.asked_by], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
    )
    if source.version.removeprefix("v") not in done.stdout:
        raise RehearsalError(
            f"{name} was built and does not say that it is {source.version}: {(done.stdout + done.stderr).strip()[:200]}"
        )


def _remove_unused(source: Source, folder: Path, home: Path) -> None:
    """Remove programs of other versions that nobody has used for a while; another checkout may still use the rest."""
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for other in folder.glob(f"{source.folder}-v*"):
        if other != home and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
