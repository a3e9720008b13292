"""Drives `pulumi` as a person at a shell does, with state, secrets and plugins of its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from facts.secrets_in_text import SECRET_TEXT
from fleet.preview.offline import OfflineStack
from lab.control_plane.cache import Progress
from lab.engine import installation, state
from lab.engine.events import Outcome
from lab.engine.installation import Installation, Plugin
from lab.engine.operation import OnEvent, Operation
from lab.engine.project import Project
from lab.engine.state import StackState
from lab.results.result import RehearsalError

COMMAND_SECONDS: Final = 300
"""Longest time of a command that is not an operation. Assumed: each takes a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


class Pulumi:
    """The engine with one project, whose stacks share a backend: a StackReference of one finds another."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        *,
        providers: Mapping[str, int],
        plugin: Plugin | None = None,
        progress: Progress = lambda _: None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Set everything up in `folder`, which must be private and is the caller's to remove.

        `root`: the user's project. `providers`: port of the running server of each provider. `plugin`: the Kubernetes provider that
        the engine starts itself. `variables`: more of the environment, e.g. KUBECONFIG; of PATH, what comes first.
        Raises RehearsalError.
        """
        self.folder = folder
        self.project = Project(root, folder / "project")
        self.installation: Installation = installation.install(folder, progress)
        home, backend = folder / "home", folder / "state"
        self._logs = folder / "logs"
        temporary = folder / "tmp"
        for one in (home, backend, self._logs, temporary):
            one.mkdir()
        if plugin is not None:
            installation.plug_in(plugin, home)
        usual, more = installation.environment(self.installation, home, backend, providers), dict(variables or {})
        path = os.pathsep.join(filter(None, (more.pop("PATH", ""), usual["PATH"])))
        # Plugins that are killed leave files there.
        self.environment = {**usual, "TMPDIR": str(temporary), **more, "PATH": path}
        self._numbers = itertools.count(1)
        self._made: set[str] = set()
        """Stacks known to exist: asking takes a second on a busy machine."""

    def run(self, *arguments: str, given: str = "", folder: Path | None = None) -> Said:
        """Run `pulumi` with these arguments. `given`: its stdin. Raises RehearsalError on timeout."""
        try:
            done = subprocess.run(
                [self.installation.program, *arguments],
                cwd=folder or self.project.folder,
                env=self.environment,
                input=given,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RehearsalError(f"pulumi {' '.join(arguments)} did not end in {COMMAND_SECONDS} s") from error
        return Said(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def stage(self, stack: OfflineStack) -> None:
        """Make this the content of its stack file; the stack is made on first use. Raises RehearsalError."""
        name = stack.file.stack
        self.project.stage(stack)
        if name not in self._made:
            if name not in self.stacks():
                self._must("stack", "init", name)
            self._made.add(name)
        for key in sorted(stack.file.secret_keys):
            self._must("config", "set", "--secret", key, "--stack", name, given=SECRET_TEXT)

    def stacks(self) -> tuple[str, ...]:
        """Names of the project's stacks with a state. Raises RehearsalError."""
        return tuple(load["name"] for load in json.loads(self._must("stack", "ls", "--json")))

    def start(
        self,
        operation: str,
        stack: str,
        *options: str,
        variables: Mapping[str, str] | None = None,
        on_event: OnEvent = lambda _: None,
    ) -> Operation:
        """Start preview, up, refresh or destroy. `variables`: more of its environment."""
        logs = self._logs / f"{next(self._numbers):03}-{operation}"
        logs.mkdir()
        answers: Sequence[str] = () if operation == "preview" else ("--yes",)
        is_previewed = not {"--skip-preview", "-f"} & set(options)
        return Operation(
            [
                self.installation.program,
                operation,
                "--stack",
                stack,
                "--non-interactive",
                "--color=never",
                *answers,
                *options,
            ],
            folder=self.project.folder,
            environment={**self.environment, **(variables or {})},
            logs=logs,
            is_previewed=is_previewed,
            on_event=on_event,
        )

    def operate(
        self,
        operation: str,
        stack: str,
        *options: str,
        variables: Mapping[str, str] | None = None,
        on_event: OnEvent = lambda _: None,
    ) -> Outcome:
        """Run preview, up, refresh or destroy to its end."""
        with self.start(operation, stack, *options, variables=variables, on_event=on_event) as running:
            return running.wait()

    def preview(self, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        """`pulumi preview`."""
        return self.operate("preview", stack, *options, on_event=on_event)

    def up(self, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        """`pulumi up --yes`, with its preview unless `--skip-preview` is an option."""
        return self.operate("up", stack, *options, on_event=on_event)

    def refresh(self, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        """`pulumi refresh --yes`."""
        return self.operate("refresh", stack, *options, on_event=on_event)

    def destroy(self, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        """`pulumi destroy --yes`."""
        return self.operate("destroy", stack, *options, on_event=on_event)

    def unlock(self, stack: str) -> Said:
        """`pulumi cancel`: removes the lock of an update that was killed."""
        return self.run("cancel", "--yes", "--stack", stack)

    def state(self, stack: str) -> StackState:
        """The stack's state, with secrets hidden. Raises RehearsalError."""
        return state.parsed(self.export(stack))

    def export(self, stack: str) -> dict[str, Any]:
        """`pulumi stack export`. Raises RehearsalError."""
        exported: dict[str, Any] = json.loads(self._must("stack", "export", "--stack", stack))
        return exported

    def import_state(self, stack: str, exported: Mapping[str, Any]) -> None:
        """`pulumi stack import` of a changed export. Raises RehearsalError."""
        self._must("stack", "import", "--stack", stack, given=json.dumps(exported))

    def _must(self, *arguments: str, given: str = "") -> str:
        said = self.run(*arguments, given=given)
        if said.code:
            raise RehearsalError(f"pulumi {' '.join(arguments)} failed: {said.stderr.strip() or said.stdout.strip()}")
        return said.stdout
