"""A shell, or single commands, in a rehearsed stack: `pulumi`, `kubectl` and `fleet` work there against the rehearsed cluster."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleet.preview.offline import open_stack
from lab.commands.rehearsal import prepared
from lab.control_plane.build import KUBERNETES
from lab.engine.installation import Plugin
from lab.engine.pulumi import Pulumi
from lab.stage.start import started

if TYPE_CHECKING:
    from lab.report.progress import Progress

_QUIET: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("--noprofile", "--norc"),
    "zsh": ("-f",),
    "fish": ("--no-config",),
}
"""Options of interactive shells against start-up files: these often export logins, or put another `pulumi` first on PATH."""
_END_SECONDS: Final = 10.0


def open_shell(root: Path, stack: str, commands: Sequence[str], *, progress: Progress) -> int:
    """Start a control plane and a simulated cloud for the stack, and run the user's shell, or these commands, in it.

    Returns the exit code of the shell, or of the first command that fails.
    Raises SettingsError and ProgramError for the stack, RehearsalError for this machine.
    """
    opened = open_stack(root, stack)
    with contextlib.ExitStack() as opening:
        _, around = prepared(opened, progress=progress)
        progress.starts("start the control plane")
        stage = opening.enter_context(started(opened, replace(around, progress=lambda _: None)))
        updates = stage.updates
        variables = environment(updates.pulumi, stack=stack)
        sys.stderr.write(banner(updates.pulumi, around.plugin, stack=stack))
        sys.stderr.flush()
        folder = updates.pulumi.project.folder
        return run_commands(commands, folder, variables) if commands else run_shell(folder, variables)


def environment(pulumi: Pulumi, *, stack: str) -> dict[str, str]:
    """The shell's environment: `pulumi`, `kubectl` and `fleet` find the rehearsed cluster."""
    program = str(pulumi.installation.program.parent)
    return pulumi.environment | {
        "PATH": f"{program}{os.pathsep}{pulumi.environment['PATH']}",
        "KUBECACHEDIR": str(pulumi.folder / "kubectl"),
        "PS1": f"(rehearsed {stack}) $ ",
    }


def banner(pulumi: Pulumi, provider: Plugin, *, stack: str) -> str:
    """What is simulated, and how to leave."""
    engine = pulumi.installation
    whose = "yours" if engine.is_users_own else "built for rehearsals"
    lines = [
        f"Rehearsed stack {stack}: nothing here costs money or reaches a cloud.",
        f"  real       Pulumi's engine {engine.version} ({whose}), its Kubernetes provider {provider.version}",
        f"             Kubernetes {KUBERNETES.version}",
        "  simulated  Google Cloud, nodes, disks and GPUs; nothing takes its time",
        "  yours      a copy of the project; your logins are not passed on, and nothing of your checkout changes",
        f"Start with: pulumi stack init {stack}; pulumi config set gcp:project my-project --stack {stack}",
    ]
    if shutil.which("kubectl", path=pulumi.environment["PATH"]) is None:
        lines.append("kubectl is not on PATH: install it to look into the cluster.")
    lines.append("Leave with: exit. State and cluster go with it.")
    return "\n".join(lines) + "\n"


def run_shell(folder: Path, environment: Mapping[str, str]) -> int:
    """Run the user's shell, without start-up files, to its end. Returns its exit code."""
    return _run(interactive(environment), folder, environment)


def interactive(environment: Mapping[str, str]) -> list[str]:
    """The user's shell, or bash for one whose start-up files cannot be switched off."""
    shell = environment.get("SHELL", "")
    if Path(shell).name not in _QUIET or shutil.which(shell) is None:
        shell = shutil.which("bash") or "/bin/sh"
    return [shell, *_QUIET.get(Path(shell).name, ())]


def run_commands(commands: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Run command lines in order, until one fails. Returns the exit code of the last."""
    for command in commands:
        code = _run(["/bin/sh", "-c", command], folder, environment)
        if code:
            return code
    return 0


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    with _left_to_child(), subprocess.Popen(command, cwd=folder, env=dict(environment)) as child:
        try:
            code = child.wait()
        except BaseException:  # SIGTERM or SIGHUP: the rehearsal ends.
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_END_SECONDS)
            child.kill()
            raise
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _left_to_child() -> Iterator[None]:
    """Ctrl-C reaches every process at the terminal; here it is for the child alone."""
    # A function and not SIG_IGN, which the child would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
