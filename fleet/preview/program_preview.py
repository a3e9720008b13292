"""A preview of a program outside this project: recorded as it is, judged by its pack or this project's, priced by what it registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from fleet.preview.offline import write_manifests
from fleet.preview.record.recorder import record
from fleet.preview.record.recording import ProgramError
from fleet.preview.record.stack_references import StackReferences
from fleet.preview.report.model import Policies, recorded
from fleet.preview.report.program_report import ProgramReport
from fleet.preview.report.recorded_bill import recorded_bill
from settings.problems import SettingsError
from settings.stack_file import StackFile, read

if TYPE_CHECKING:
    from fleet.preview.record.recording import Mode, Recording

TAKEN: Final = ("facts", "settings", "infra", "workloads", "fleet", "lab")
"""Names that a program beside these packages cannot have for modules of its own: Python would find one of the two for both."""

NOT_CHECKED: Final = (
    "Whether a model fits its GPUs, where the catalog does not list it with this commit (`fleet models`).",
    "Context, adapters, parsers and flags against the model; whether a zone or region has the machine; quotas.",
)
"""What `fleet check` finds in a stack file, and nothing in a program of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProgram:
    """One stack of such a program, ready to record."""

    root: Path
    file: StackFile

    def record(self, mode: Mode, references: StackReferences | None = None) -> Recording:
        """Record it; other stacks of the program that it refers to are recorded first. Raises ProgramError."""
        return record(
            self.root,
            project=self.file.project,
            stack=self.file.stack,
            config=self.file.config,
            secret_keys=self.file.secret_keys,
            mode=mode,
            stack_outputs=references or self._references(),
        )

    def _references(self) -> StackReferences:
        def record_other(name: str, references: StackReferences) -> Recording:
            try:
                return open_program(self.root, name).record("known", references)
            except SettingsError as error:
                raise ProgramError(str(error), error) from error

        return StackReferences(self.root, project=self.file.project, stack=self.file.stack, record_stack=record_other)


def open_program(root: Path, stack: str) -> OwnProgram:
    """Read the stack's configuration. Raises SettingsError."""
    taken = [name for name in TAKEN if (root / name).is_dir() or (root / f"{name}.py").is_file()]
    # The program may be this repository's own, under another name.
    if taken and not (root / "workloads" / "serving_stack.py").is_file():
        raise SettingsError(stack, [_taken(name) for name in taken])
    return OwnProgram(root=root, file=read(root, stack, of_any_project=True))


def _taken(name: str) -> Finding:
    return Finding(
        id="taken-name",
        subject=name,
        found="a module of the program",
        allowed=f"names other than {', '.join(TAKEN)}",
        why="the components' packages have these names, and Python finds the program's first",
        write=f"rename it, e.g. my_{name}",
    )


def preview_program(
    root: Path, stack: str, *, out: Path | None = None, ask_policies: bool = True, for_machines: bool = False
) -> ProgramReport:
    """Record and report one stack; write its manifests to `out` if given.

    Price and policies need complete values, so the recording has placeholders. `for_machines`: the report shows one that leaves unknown
    what a first `pulumi preview` does not know.

    Raises SettingsError, ProgramError, RenderError and PolicyError, each with a message for a person.
    """
    program = open_program(root, stack)
    with ExitStack() as cleanup:
        judging = None
        if ask_policies:
            from fleet.preview.judging import Judging

            judging = cleanup.enter_context(Judging(root, program.file, None))
        whole = program.record("known")
        shown = program.record("preview") if for_machines else whole
        if out is not None:
            write_manifests(whole, out)
        policies = Policies(state="skipped")
        if judging is not None:
            policies = judging.judge(whole, lambda: shown if shown.mode == "preview" else program.record("preview"))
    priced = recorded_bill(whole.resources, program.file.config.get("gcp:region"))
    priced = replace(priced, unknown=(*priced.unknown, *NOT_CHECKED))
    return ProgramReport(
        **recorded(shown, policies, remarks=tuple(_remarks(program)), out=None if out is None else str(out)),
        priced=priced,
    )


def _remarks(program: OwnProgram) -> Iterator[str]:
    file = program.file
    yield "This program has no stack file of vllm-fleet: only the components' arguments and what it registers are checked."
    if file.secret_keys:
        yield f"Secrets cannot be decrypted offline; placeholders were used for {', '.join(sorted(file.secret_keys))}."
    if file.about_environments:
        yield file.about_environments
