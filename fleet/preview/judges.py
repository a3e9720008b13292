"""Who judges a preview: the checkout's policy pack and limits and, beside a git reference, the reference's.

A change must not decide alone whether it is allowed: with `--against REF`, the pack and the limits of REF judge the
checkout's resources, too. An update is blocked if either side blocks. Where both are equal, one judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.preview.policy import find_pack
from fleet.preview.policy_config import (
    PACK_FOLDER,
    STOPS,
    Given,
    PolicyError,
    PolicyState,
    config_file,
    read_config,
    weaker,
)

if TYPE_CHECKING:
    from fleet.preview.policy import Violation

Side = Literal["base", "head"]
Kind = Literal[
    "level", "setting", "policy-added", "policy-removed", "pack-removed", "pack", "workflow", "toolbox", "packages"
]
"""The last four are files: of the pack and what it reads, of the workflows, of `fleet`, and the pinned packages."""
HERE: Final = "this checkout"
"""Label of the head: what would judge after the change is merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The project's files of a baseline."""

    folder: Path
    label: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pack and a stack's limits on one side."""

    side: Side
    label: str
    pack: Path
    config: Given
    file: str
    """Path of the policy config file."""
    missing: bool
    """Whether that file does not exist."""
    modules: Path | None = None
    """Where the pack finds what it imports, if not where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What one side was asked, and what it found."""

    side: Side
    label: str
    file: str
    missing: bool
    states: tuple[PolicyState, ...]
    blocking: int
    warnings: int

    @property
    def asked(self) -> int:
        """Number of policies that were asked."""
        return sum(not state.disabled for state in self.states)

    @property
    def disabled(self) -> tuple[PolicyState, ...]:
        """Policies that were not asked."""
        return tuple(state for state in self.states if state.disabled)

    @property
    def lowered(self) -> tuple[PolicyState, ...]:
        """Policies that warn and would block by their own level."""
        return tuple(state for state in self.states if state.lowered)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeChange:
    """One difference between what judges before and after a change."""

    kind: Kind
    subject: str
    """A policy, a setting as `policy.setting`, or a file."""
    before: Any = None
    after: Any = None
    file: str = ""
    """What says so; empty where the subject is a file."""
    weaker: bool = False
    """Whether less is judged or stopped than before. Of a setting and of code, nothing here knows."""


def head_of(root: Path, stack: str) -> Source | None:
    """The checkout's judge; None without a pack. Raises PolicyError."""
    return _source("head", HERE, root, stack)


def base_of(tree: Tree | None, stack: str) -> Source | None:
    """The baseline's judge; None without a baseline or a pack. Raises PolicyError."""
    if tree is None:
        return None
    try:
        found = _source("base", tree.label, tree.folder, stack)
    except PolicyError as error:
        raise PolicyError(f"{tree.label}: {error}") from error
    return None if found is None else replace(found, modules=found.pack.parent)


def _source(side: Side, label: str, root: Path, stack: str) -> Source | None:
    if (pack := find_pack(root)) is None:
        return None
    file = config_file(stack)
    return Source(
        side=side,
        label=label,
        pack=pack,
        config=read_config(root, stack),
        file=file,
        missing=not (root / file).is_file(),
    )


def are_equal(base: Source, head: Source, files: Iterable[JudgeChange]) -> bool:
    """Whether both sides would say the same about the same resources."""
    return base.config == head.config and not any(file.kind == "pack" for file in files)


def judge_of(source: Source, states: tuple[PolicyState, ...], violations: Iterable[Violation]) -> Judge:
    """One side and the number of its violations."""
    stops = [violation.level in STOPS for violation in violations]
    return Judge(
        side=source.side,
        label=source.label,
        file=source.file,
        missing=source.missing,
        states=states,
        blocking=sum(stops),
        warnings=len(stops) - sum(stops),
    )


def both(base: Iterable[Violation], head: Iterable[Violation]) -> tuple[Violation, ...]:
    """Every violation once, with the sides that found it: the baseline's first, blocking ones before warnings."""
    found: dict[Violation, list[Side]] = {}
    sides: tuple[tuple[Side, Iterable[Violation]], ...] = (("base", base), ("head", head))
    for side, violations in sides:
        for violation in violations:
            found.setdefault(violation, []).append(side)
    marked = [replace(one, judges=tuple(sides)) for one, sides in found.items()]
    return tuple(sorted(marked, key=lambda one: one.level not in STOPS))


def changes_of_policies(base: Judge, head: Judge | None) -> Iterator[JudgeChange]:
    """What differs between the policies of two sides; without a head, the change removes the pack."""
    if head is None:
        yield JudgeChange(kind="pack-removed", subject=PACK_FOLDER, weaker=True)
        return
    after = {state.name: state for state in head.states}
    before = {state.name: state for state in base.states}
    for name in sorted(before.keys() - after.keys()):
        yield JudgeChange(kind="policy-removed", subject=name, before=before[name].level, file=PACK_FOLDER, weaker=True)
    for name in sorted(after.keys() - before.keys()):
        yield JudgeChange(kind="policy-added", subject=name, after=after[name].level, file=PACK_FOLDER)
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if old.level != new.level:
            by = new.by or (old.by if old.by != PACK_FOLDER and old.own == new.own else PACK_FOLDER)
            less = weaker(new.level, old.level)
            yield JudgeChange(kind="level", subject=name, before=old.level, after=new.level, file=by, weaker=less)
        for key in sorted(old.settings.keys() | new.settings.keys()):
            if (was := old.settings.get(key)) != (now := new.settings.get(key)):
                yield JudgeChange(kind="setting", subject=f"{name}.{key}", before=was, after=now, file=head.file)
