"""Prepares a stack for an offline run: reads and checks its file, and replaces the placeholder project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.checks.placeholders import PLACEHOLDER_PROJECT, STAND_IN_PROJECT, placeholders
from settings.load import check, parse
from settings.neighbours import beside_others
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE
from settings.stack import Settings
from settings.stack_file import StackFile, read

if TYPE_CHECKING:
    from fleet.preview.record.recording import Mode, Recording
    from fleet.preview.record.stack_references import StackReferences


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineStack:
    """One checked stack, ready to record."""

    root: Path
    file: StackFile
    config: Mapping[str, str]
    """The file's configuration with the project replaced."""
    settings: Settings
    problems: tuple[Finding, ...]
    """Findings and notes."""

    @property
    def project_is_stood_in(self) -> bool:
        """Whether gcp:project is still the placeholder."""
        return self.settings.project == STAND_IN_PROJECT


def open_stack(root: Path, stack: str) -> OfflineStack:
    """Read and check one stack. Raises SettingsError with all problems."""
    file = read(root, stack)
    config = dict(file.config)
    if config.get("gcp:project") == PLACEHOLDER_PROJECT:
        config["gcp:project"] = STAND_IN_PROJECT
    settings = parse(stack, config, file.unopened)
    problems = (*placeholders(settings), *check(settings), *beside_others(root, stack, file.config))
    refused = [problem for problem in problems if problem.severity == "error"]
    if refused:
        raise SettingsError(stack, refused)
    return OfflineStack(root=root, file=file, config=config, settings=settings, problems=problems)


def record_stack(
    stack: OfflineStack,
    mode: Mode,
    references: StackReferences | None = None,
    *,
    is_up: bool = False,
) -> Recording:
    """Record the stack's program; other stacks that it refers to are recorded first. `is_up`: see `record`.

    Raises ProgramError.
    """
    from fleet.preview.record.recorder import record

    return record(
        stack.root,
        project=NAMESPACE,
        stack=stack.file.stack,
        config=stack.config,
        secret_keys=stack.file.secret_keys,
        mode=mode,
        stack_outputs=references or _references_of(stack),
        is_up=is_up,
    )


def write_manifests(recording: Recording, out: Path) -> list[Path]:
    """Write a known-mode recording to the folder `out`; the files, in order. Raises RenderError with the folder's name."""
    from fleet.preview.render import RenderError, render

    try:
        return render(recording, out)
    except OSError as error:
        raise RenderError(f"{out} could not be written: {error.strerror or error}") from error


def _references_of(stack: OfflineStack) -> StackReferences:
    from fleet.preview.record.stack_references import StackReferences

    def record_other(name: str, references: StackReferences) -> Recording:
        from fleet.preview.record.recording import ProgramError

        try:
            return record_stack(open_stack(stack.root, name), "known", references)
        except SettingsError as error:
            raise ProgramError(str(error), error) from error

    return StackReferences(stack.root, project=NAMESPACE, stack=stack.file.stack, record_stack=record_other)
