"""Builds the rehearsal's programs from Go modules: Kubernetes, etcd, kwok, Pulumi's engine and its Kubernetes provider."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.control_plane import cache, go_command, toolchain
from lab.control_plane.cache import GIB, Progress
from lab.control_plane.toolchain import GO_FOLDER, Toolchain
from lab.results.result import RehearsalError

NEEDED_BYTES: Final = 5 * GIB
"""Disk space of a first build. Measured: 3.6 GB of compiled packages, 0.9 GB of modules, 0.35 GB of programs."""
UNUSED_DAYS: Final = 30
"""Programs of other versions are removed after this time without use."""
_VERSION_SECONDS: Final = 60
SYSTEMS: Final = ("linux", "darwin")
"""Supported prefixes of sys.platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Paths of a control plane's programs."""

    etcd: Path
    api_server: Path
    controller_manager: Path
    scheduler: Path
    kwok: Path
    """With kwok's own Stages beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Go module of this project with programs to build."""

    folder: str
    title: str
    module: str
    """The module whose version the programs report."""
    packages: Mapping[str, str]
    """Package of each program."""
    version_variables: tuple[str, ...] = ()
    """Variables that the linker sets to the version; a build from a module has no tag."""
    version_option: str = "--version"
    """Argument that prints a program's version."""
    scripts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files that a module carries and that are kept beside the programs: name -> module and path in it."""
    embedded: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Files that a module carries and that the project's own Go file embeds: name -> module and path in it."""

    @property
    def files(self) -> tuple[Path, ...]:
        """go.mod, go.sum and the project's own Go files."""
        folder = GO_FOLDER / self.folder
        return folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))

    @property
    def version(self) -> str:
        """Version pinned in go.mod, e.g. "v1.36.3"."""
        match = re.search(
            rf"^\s*{re.escape(self.module)} (v\S+)", self.files[0].read_text(encoding="utf-8"), re.MULTILINE
        )
        if match is None:
            raise ValueError(f"{self.files[0]} does not pin {self.module}")
        return match[1]

    @property
    def linker_flags(self) -> str:
        """Without symbol tables, which double the size; with the version."""
        major, minor, *_ = self.version.removeprefix("v").split(".")
        values = dict.fromkeys(("gitVersion", "version", "Version"), self.version)
        values |= {"gitMajor": major, "gitMinor": minor}
        settings = (f"-X {variable}={values[variable.rsplit('.', 1)[1]]}" for variable in self.version_variables)
        return " ".join(("-s", "-w", *settings))

    @property
    def key(self) -> str:
        """Digest of the programs' sources, without Go's version: a new patch release does not require a build of five minutes."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(file.read_bytes())
        digest.update(f"{self.linker_flags} {sys.platform} {platform.machine()}".encode())
        return digest.hexdigest()[:16]

    @property
    def home(self) -> str:
        """Folder of its programs in the cache."""
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
    folder="kwok",
    title="kwok",
    module="sigs.k8s.io/kwok",
    packages={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    scripts={
        path.rpartition("/")[2]: ("sigs.k8s.io/kwok", f"kustomize/stage/{path}")
        for path in (
            "node/fast/node-initialize.yaml",
            "pod/fast/pod-ready.yaml",
            "pod/fast/pod-complete.yaml",
            "pod/fast/pod-delete.yaml",
        )
    },
)
"""With its own Stages of nodes and pods."""
ETCD: Final = Source(
    folder="etcd", title="etcd", module="go.etcd.io/etcd/server/v3", packages={"etcd": "go.etcd.io/etcd/server/v3"}
)
SOURCES: Final = (KUBERNETES, KWOK, ETCD)
"""Sources of a control plane."""
PULUMI: Final = Source(
    folder="pulumi",
    title="Pulumi's engine",
    module="github.com/pulumi/pulumi/pkg/v3",
    packages={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    version_variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",),
    version_option="version",
    scripts={
        "pulumi-language-python-exec": (
            "github.com/pulumi/pulumi/sdk/v3",
            "python/cmd/pulumi-language-python-exec",
        )
    },
)
"""The command line with the whole engine, and the script that runs a Python program. Measured: 6.4 minutes of processor time, 115 MB."""
_PROVIDER_MODULE: Final = "github.com/pulumi/pulumi-kubernetes/provider/v4"
KUBERNETES_PROVIDER: Final = Source(
    folder="kubernetes-provider",
    title="Pulumi's Kubernetes provider",
    # The provider's own module has no release; it belongs to the SDK of this version.
    module="github.com/pulumi/pulumi-kubernetes/sdk/v4",
    packages={"pulumi-resource-kubernetes": "."},
    version_variables=("main.version",),
    embedded={
        name: (_PROVIDER_MODULE, f"cmd/pulumi-resource-kubernetes/{name}")
        for name in ("schema.json", "terraform-mapping.json")
    },
)
"""The real provider. Measured: 18 minutes of processor time, 169 MB; with cgo, whose linker keeps more, 308 MB."""


def binaries(progress: Progress) -> Binaries:
    """The control plane's programs, built unless cached.

    A first build takes minutes; an interrupted one resumes. Raises RehearsalError.
    """
    kubernetes, kwok, etcd = (_provide(source, progress) for source in SOURCES)
    return Binaries(
        etcd=etcd / "etcd",
        api_server=kubernetes / "kube-apiserver",
        controller_manager=kubernetes / "kube-controller-manager",
        scheduler=kubernetes / "kube-scheduler",
        kwok=kwok / "kwok",
    )


def pulumi(progress: Progress) -> Path:
    """The `pulumi` command, built unless cached; `pulumi-language-python-exec` is beside it. Raises RehearsalError."""
    return _provide(PULUMI, progress) / "pulumi"


def kubernetes_provider(progress: Progress) -> Path:
    """The `pulumi-resource-kubernetes` plugin, built unless cached. Raises RehearsalError."""
    return _provide(KUBERNETES_PROVIDER, progress) / "pulumi-resource-kubernetes"


def is_built(*sources: Source) -> bool:
    """Whether all programs of these sources are in the cache."""
    return all(_is_complete(source, cache.place() / source.home) for source in sources)


def _require_system() -> None:
    if not sys.platform.startswith(SYSTEMS):
        raise RehearsalError(
            "the control plane requires Linux or macOS; on Windows, use the Windows Subsystem for Linux"
        )


def _provide(source: Source, progress: Progress) -> Path:
    """The folder with a source's programs, built if one is missing."""
    _require_system()
    folder = cache.folder()
    home = folder / source.home
    if _is_complete(source, home):
        os.utime(home)  # Marks it as used, see _remove_unused.
        return home
    with cache.locked(folder, progress):
        if not _is_complete(source, home):  # Another process may have built it meanwhile.
            go = toolchain.find(folder, progress)
            cache.require_room(NEEDED_BYTES, cache=folder, reused=go.caches)
            _build(source, go, folder, home, progress)
            _remove_unused(source, folder, home)
    return home


def _is_complete(source: Source, home: Path) -> bool:
    return all((home / name).is_file() for name in (*source.scripts, *source.packages))


def _build(source: Source, go: Toolchain, folder: Path, home: Path, progress: Progress) -> None:
    began = time.monotonic()
    # In a copy: go must not change the repository, and an incomplete build must not look complete.
    work = folder / f"building-{source.folder}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for file in source.files:
        shutil.copy(file, work)
    progress(f"building {source.title} {source.version} with Go {go.version}, once; kept in {home}")
    try:
        packages = list(source.packages.values())
        for name, (module, path) in source.embedded.items():
            shutil.copyfile(_module_folder(module, go, work, fetch=True) / path, work / name)
        total = _download(source, packages, go, work, progress)
        _compile(source, packages, go, work, progress, total)
        home.mkdir(exist_ok=True)
        for name, (module, path) in source.scripts.items():
            shutil.copyfile(_module_folder(module, go, work) / path, home / name)
        for name, package in source.packages.items():
            built = work / "built" / _built_name(source, package)
            _check(source, name, built)
            built.replace(home / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if go.own_build_cache is not None:
        # 3 GB that would only be used again after a version change.
        shutil.rmtree(go.own_build_cache, ignore_errors=True)
    progress(f"{source.title} {source.version} is built ({_duration(time.monotonic() - began)})")


def _download(source: Source, packages: list[str], go: Toolchain, work: Path, progress: Progress) -> int:
    """Fetch the modules; returns the number of packages."""
    fetched: list[str] = []

    def heard(line: str) -> None:
        if line.startswith("go: downloading "):
            fetched.append(line.removeprefix("go: downloading "))

    def heartbeat(seconds: float) -> None:
        latest = f", now {fetched[-1]}" if fetched else ""
        progress(f"{source.title}: {len(fetched)} modules fetched{latest} ({_duration(seconds)})")

    output = go_command.run(
        go,
        ["list", "-deps", *packages],
        folder=work,
        what=f"fetching the modules of {source.title}",
        heard=heard,
        heartbeat=heartbeat,
    )
    if fetched:
        progress(f"{source.title}: {len(fetched)} modules fetched and checked against go.sum")
    return sum(1 for line in output if line and not line.startswith("go: "))


def _compile(source: Source, packages: list[str], go: Toolchain, work: Path, progress: Progress, total: int) -> None:
    compiled = 0

    def heard(_line: str) -> None:
        nonlocal compiled
        compiled += 1

    def heartbeat(seconds: float) -> None:
        progress(
            f"{source.title}: compiling and linking; {compiled} of at most {total} packages compiled ({_duration(seconds)})"
        )

    go_command.run(
        go,
        # Reproducible: the same bytes on every machine with the same Go.
        ["build", "-v", "-trimpath", "-ldflags", source.linker_flags, "-o", f"built{os.sep}", *packages],
        folder=work,
        what=f"compiling {source.title}",
        heard=heard,
        heartbeat=heartbeat,
    )


def _module_folder(module: str, go: Toolchain, work: Path, *, fetch: bool = False) -> Path:
    """Folder of a module in Go's cache, where its checksum was verified."""
    if fetch:
        go_command.run(go, ["mod", "download", module], folder=work, what=f"fetching the module {module}")
    *_, folder = go_command.run(
        go, ["list", "-m", "-f", "{{.Dir}}", module], folder=work, what=f"finding the module {module}"
    )
    return Path(folder)


def _built_name(source: Source, package: str) -> str:
    """Name of a package's program: the last path element that is not a major version; of the folder's own, the module's."""
    if package == ".":
        return source.folder
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


def _check(source: Source, name: str, program: Path) -> None:
    done = subprocess.run(
        [program, source.version_option], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
    )
    if source.version.removeprefix("v") not in done.stdout:
        raise RehearsalError(
            f"{name} was built but does not report version {source.version}: {(done.stdout + done.stderr).strip()[:200]}"
        )


def _remove_unused(source: Source, folder: Path, home: Path) -> None:
    """Remove unused programs of other versions; other checkouts may still use recent ones."""
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for other in folder.glob(f"{source.folder}-v*"):
        if other != home and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"
