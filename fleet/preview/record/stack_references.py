"""Answers a StackReference without a backend: from this project's own stack files, from a saved file, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.preview.record.recording import ORGANIZATION, ProgramError, StackOutputs
from fleet.preview.record.values import Secret

if TYPE_CHECKING:
    from fleet.preview.record.recording import Recording

OUTPUTS_FOLDER = "stack-outputs"
"""Where saved outputs are looked for, as `<project>.<stack>.json`: what `pulumi stack output --json` prints."""
_HIDDEN = "[secret]"
"""What `pulumi stack output --json` prints for a secret output unless told to show it."""


class StackReferences:
    """The stacks one recording may refer to. Give it to `record(stack_outputs=...)`.

    Another stack of this project is recorded in known mode, with references of its own answered the same way; two
    stacks that refer to each other are refused. Each stack is resolved once.
    """

    def __init__(
        self,
        root: Path,
        *,
        project: str,
        stack: str,
        record_stack: Callable[[str, StackReferences], Recording],
        trail: tuple[str, ...] = (),
    ) -> None:
        self._root = root
        self._project = project
        self._record_stack = record_stack
        self._trail = (*trail, stack)
        self._resolved: dict[str, StackOutputs] = {}

    def __call__(self, name: str) -> StackOutputs:
        """The outputs of `organization/project/stack` (or shorter: `stack`), and where they come from.

        Raises ProgramError for a name that every backend refuses. Two parts are an organization and a stack, and a bucket's
        only organization is `organization`. Source: pulumi, pkg/backend/diy/store.go (ParseReference); Pulumi Cloud takes
        the three parts alone (pkg/backend/httpstate/backend.go, GetStackOutputs).
        """
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def _resolve(self, name: str) -> StackOutputs:
        *before, stack = name.split("/")
        if len(before) > 2 or (len(before) == 1 and before != [ORGANIZATION]):
            raise ProgramError(
                f"StackReference {name!r}: Pulumi takes organization/project/stack, and a bucket also stack alone"
            )
        project = before[1] if len(before) == 2 else self._project
        file = self._root / f"Pulumi.{stack}.yaml"
        if project == self._project and file.is_file():
            return self._recorded(stack, file)
        saved = self._root / OUTPUTS_FOLDER / f"{project}.{stack}.json"
        if saved.is_file():
            return StackOutputs(values=_read(saved), source=f"read from {saved.relative_to(self._root)}")
        looked = f"there is neither {saved.relative_to(self._root)}"
        looked += f" nor {file.name}" if project == self._project else f", nor is {project} this project"
        return StackOutputs(values=None, source=looked)

    def _recorded(self, stack: str, file: Path) -> StackOutputs:
        if stack in self._trail:
            circle = " -> ".join((*self._trail[self._trail.index(stack) :], stack))
            raise ProgramError(f"stacks refer to each other in a circle: {circle}; neither could be created first")
        references = StackReferences(
            self._root, project=self._project, stack=stack, record_stack=self._record_stack, trail=self._trail
        )
        try:
            recording = self._record_stack(stack, references)
        except ProgramError as error:
            gap = "\n\n" if "\n" in error.message else " "
            raise ProgramError(f"stack {stack}, which this one refers to:{gap}{error.message}", error.cause) from error
        return StackOutputs(values=recording.outputs, source=f"recorded from {file.name}, as if it were up")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        outputs = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{path} is not JSON ({error}); write it with `pulumi stack output --json`") from error
    if not isinstance(outputs, dict):
        raise ProgramError(f"{path} holds no map of outputs; write it with `pulumi stack output --json`")
    return {name: Secret(_HIDDEN) if value == _HIDDEN else value for name, value in outputs.items()}
