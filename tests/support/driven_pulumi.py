"""The lab's `pulumi` with operations that run to their end. For tests only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.engine.events import Outcome
from lab.engine.operation import OnEvent
from lab.engine.pulumi import Pulumi


class DrivenPulumi(Pulumi):
    """A test waits for each operation, and may write a state."""

    def preview(self, stack: str, *options: str) -> Outcome:
        """`pulumi preview`."""
        return self._operate("preview", stack, *options)

    def up(self, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        """`pulumi up --yes`, with its preview unless `--skip-preview` is an option."""
        return self._operate("up", stack, *options, on_event=on_event)

    def refresh(self, stack: str, *options: str) -> Outcome:
        """`pulumi refresh --yes`."""
        return self._operate("refresh", stack, *options)

    def destroy(self, stack: str, *options: str) -> Outcome:
        """`pulumi destroy --yes`."""
        return self._operate("destroy", stack, *options)

    def _operate(self, operation: str, stack: str, *options: str, on_event: OnEvent = lambda _: None) -> Outcome:
        with self.start(operation, stack, *options, on_event=on_event) as running:
            return running.wait()


def driven(folder: Path, project: str, program: str, providers: Mapping[str, int]) -> DrivenPulumi:
    """A driver of a project with this program and the stack `dev`."""
    root = folder / "root"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(project)
    (root / "__main__.py").write_text(program)
    made = DrivenPulumi(root, folder / "run", providers=providers)
    assert made.run("stack", "init", "dev").code == 0
    return made


def import_state(pulumi: Pulumi, stack: str, exported: Mapping[str, Any]) -> None:
    """`pulumi stack import` of a changed export."""
    said = pulumi.run("stack", "import", "--stack", stack, given=json.dumps(exported))
    assert said.code == 0, said.stderr
