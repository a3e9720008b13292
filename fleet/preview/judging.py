"""The packs that judge one preview, from their start to their verdicts."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.preview.judges import JudgeChange, are_equal, base_of, both, changes_of_policies, head_of, judge_of
from fleet.preview.policy import start
from fleet.preview.policy_config import PolicyError
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from types import TracebackType

    from fleet.preview.compare.baseline_git import GitBaseline
    from fleet.preview.judges import Judge
    from fleet.preview.policy import Violation
    from fleet.preview.record.recording import Recording
    from fleet.preview.report.model import Policies
    from settings.stack_file import StackFile


class Judging:
    """The checkout's pack and, where it would judge otherwise, the baseline's. A context manager that ends them."""

    def __init__(
        self,
        root: Path,
        file: StackFile,
        against: GitBaseline | None,
    ) -> None:
        """Start the packs. Raises PolicyError."""
        self._open = ExitStack()
        self._files: tuple[JudgeChange, ...] = ()
        stack, region = file.stack, file.config.get("gcp:region", "")
        try:
            if (head := head_of(root, stack)) is not None:
                run = start(head.pack, project=NAMESPACE, stack=stack, config=head.config, region=region)
                self._head_run = self._open.enter_context(run)
            tree = None if against is None else against.tree
            if tree is not None:
                from fleet.preview.compare.judge_files import changed_files

                self._files = changed_files(tree, root)
            base = base_of(tree, stack)
            if head is not None and base is not None and are_equal(base, head, self._files):
                base = None
            if base is not None:
                run = start(
                    base.pack, project=NAMESPACE, stack=stack, config=base.config, modules=base.modules, region=region
                )
                self._base_run = self._open.enter_context(run)
        except BaseException:
            self._open.close()
            raise
        self._head, self._base = head, base

    def __enter__(self) -> Judging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def is_taken(self) -> bool:
        """Whether any pack judges."""
        return self._head is not None or self._base is not None

    def judge(self, whole: Recording) -> Policies:
        """The verdicts on a recording with placeholders. Raises PolicyError."""
        from fleet.preview.report.model import Policies

        violations: tuple[Violation, ...] = ()
        judge: Judge | None = None
        if self._head is not None:
            violations = self._head_run.judge(whole)
            judge = judge_of(self._head, self._head_run.states, violations)
        changes = self._files
        judges = (judge,) if judge is not None else ()
        if self._base is not None:
            try:
                theirs = self._base_run.judge(whole)
            except PolicyError as error:
                raise PolicyError(f"{self._base.label}: {error}") from error
            base = judge_of(self._base, self._base_run.states, theirs)
            judges = (base, *judges)
            changes = (*changes_of_policies(base, judge), *changes)
            violations = both(theirs, violations)
        return Policies(
            state="judged" if judges else "none",
            violations=violations,
            judges=judges,
            changes=changes,
        )
