"""The `pulumi` of a rehearsal and its Kubernetes provider: the user's own, else built from their Go modules.

The built engine has a language host of ours.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from lab.control_plane import build
from lab.control_plane.cache import Progress
from lab.results.result import RehearsalError

PROVIDER: Final = "pulumi-resource-kubernetes"
LANGUAGE_HOST: Final = Path(__file__).with_name("language_host.py")
_VERSION_SECONDS: Final = 60
_KEPT: Final = (
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TZ",
    "USER",
    "EDITOR",
    "VISUAL",
)
"""Variables of the user's environment that the engine gets, with those of _KEPT_PREFIXES. No others: logins, access tokens and
proxies travel in variables of many names."""
_KEPT_PREFIXES: Final = ("LC_", "VLLM_FLEET_", "XDG_CACHE_")
PASSPHRASE: Final = "rehearsal"  # noqa: S105
"""Encrypts secrets of the rehearsed state and stack files, which hold none of the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A `pulumi` with a language host for Python."""

    program: Path
    version: str
    """E.g. "v3.274.1"."""
    is_users_own: bool
    """Whether it is from PATH, with its own language host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A Kubernetes provider."""

    program: Path
    version: str
    """E.g. "v4.24.0"."""


def users_own() -> Path | None:
    """The user's `pulumi`."""
    found = shutil.which("pulumi")
    return Path(found).resolve() if found else None


def wanted_provider() -> str:
    """Version of the Kubernetes provider that the installed SDK asks for, e.g. "v4.34.2"."""
    return f"v{metadata.version('pulumi-kubernetes')}"


def users_provider() -> Plugin | None:
    """The user's Kubernetes provider, if it has the SDK's version."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    program = home / "plugins" / f"resource-kubernetes-{wanted_provider()}" / PROVIDER
    return Plugin(program=program, version=wanted_provider()) if program.is_file() else None


def kubernetes_provider(progress: Progress) -> Plugin:
    """The Kubernetes provider. Raises RehearsalError."""
    if (own := users_provider()) is not None:
        return own
    return Plugin(program=build.kubernetes_provider(progress), version=build.KUBERNETES_PROVIDER.version)


def plug_in(provider: Plugin, home: Path) -> None:
    """Install a provider where the engine looks for the SDK's version; an older one makes it warn."""
    folder = home / "plugins" / f"resource-kubernetes-{wanted_provider()}"
    folder.mkdir(parents=True)
    (folder / PROVIDER).symlink_to(provider.program)


def install(folder: Path, progress: Progress) -> Installation:
    """Provide a `pulumi` for a run, whose files go into `folder`. Raises RehearsalError."""
    if (own := users_own()) is not None:
        return Installation(program=own, version=_version(own), is_users_own=True)
    built = build.pulumi(progress)
    # The engine looks for a bundled language host beside its own real path, and the cache is shared by several environments.
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "pulumi"
    try:
        os.link(built, program)
    except OSError:  # Another file system.
        shutil.copy2(built, program)
    executor = built.with_name("pulumi-language-python-exec")
    # -P: the host's folder has modules named like packages that the host imports.
    words = shlex.join([sys.executable, "-P", str(LANGUAGE_HOST), str(executor)])
    launcher = programs / "pulumi-language-python"
    launcher.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return Installation(program=program, version=build.PULUMI.version, is_users_own=False)


def environment(installation: Installation, home: Path, backend: Path, providers: Mapping[str, int]) -> dict[str, str]:
    """The environment of every command: state, plugins and secrets of its own, and nothing of the user's logins.

    `providers`: port of the running server of each provider.
    """
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    path = os.pathsep.join(
        dict.fromkeys((str(installation.program.parent), str(Path(sys.executable).parent), *os.get_exec_path()))
    )
    return kept | {
        "PATH": path,
        "PULUMI_HOME": str(home),
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        **attached(providers),
        "PULUMI_DEBUG_COMMANDS": "true",  # For --event-log.
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # Providers are attached and the language host is beside the engine: one found on PATH would be a mistake.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
        # The folder's only reader is this rehearsal.
        "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        # Google's and Kubernetes' clients look here before they look into the home folder.
        "CLOUDSDK_CONFIG": str(home / "no-gcloud"),
        "KUBECONFIG": str(home / "no-kubeconfig"),
    }


def attached(providers: Mapping[str, int]) -> dict[str, str]:
    """The variable by which the engine uses running servers as providers."""
    return {"PULUMI_DEBUG_PROVIDERS": ",".join(f"{name}:{port}" for name, port in sorted(providers.items()))}


def _version(program: Path) -> str:
    try:
        done = subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RehearsalError(
            f"{program} does not run ({error}). Repair it, or take it off PATH: the rehearsal then builds its own"
        ) from error
    return done.stdout.strip()
