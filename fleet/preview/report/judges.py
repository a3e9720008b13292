"""How a report tells who judged: how many policies were asked, what is switched off, and what a change does to its judge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.preview.policy_config import STOPS

if TYPE_CHECKING:
    from fleet.preview.judges import Judge, JudgeChange
    from fleet.preview.policy import Violation
    from fleet.preview.policy_config import PolicyState
    from fleet.preview.report.model import Policies, Report

HOW_TO_LAND: Final = "Either one blocks. Land a change of limits or of the pack first, then what needs it."
_MOST_NAMES: Final = 6
_MOST_SETTINGS: Final = 12
_LONGEST_VALUE: Final = 80
_OF_FILES: Final[Mapping[str, str]] = {
    "pack": "the policy pack and what it reads",
    "workflow": "workflows and code owners",
    "toolbox": "the toolbox that prints this report",
    "packages": "installed packages",
}
_ENDED_BY_A_RULE: Final = "a-rule-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One line about the judges."""

    text: str
    loud: bool = False
    """Whether less is judged or stopped than the pack's own levels say, or than before the change."""


def format_asked(judge: Judge) -> str:
    """`129 policies asked`, or `4 of 129 policies asked`."""
    total = len(judge.states)
    whole = plural(total, "policy", "policies")
    return f"{whole} asked" if judge.asked == total else f"{judge.asked:,} of {whole} asked"


def are_all_asked(policies: Policies) -> bool:
    """Whether no policy of any judge is disabled."""
    return not any(judge.disabled for judge in policies.judges)


def remarks_of(policies: Policies) -> Iterator[Remark]:
    """What was asked, what the configuration sets, and what it switches off; per judge if there are two."""
    for judge in policies.judges:
        whose = f"{judge.label}: " if len(policies.judges) > 1 else ""
        for remark in _of_judge(judge):
            yield Remark(text=f"{whose}{remark.text}", loud=remark.loud)
    if silent := sorted(set(_without_verdict(policies.violations))):
        yield Remark(text=f"{plural(len(silent), 'policy', 'policies')} could not judge: {_some(silent)}", loud=True)


def _of_judge(judge: Judge) -> Iterator[Remark]:
    settings = [f"{state.name}.{name} {_value(state.settings[name])}" for state in judge.states for name in state.given]
    told = "; ".join(settings[:_MOST_SETTINGS])
    if len(settings) > _MOST_SETTINGS:
        told += f" and {len(settings) - _MOST_SETTINGS} more"
    file = f"there is no {judge.file}" if judge.missing else f"{judge.file} sets {told or 'no limit'}"
    yield Remark(text=f"{format_asked(judge)}; {file}")
    for by, states in _by_source(judge.disabled):
        mandatory = [one for one in states if one.own in STOPS]
        names = [one.name for one in (*mandatory, *(one for one in states if one.own not in STOPS))]
        how_many = f"{len(states)} of {plural(len(judge.states), 'policy', 'policies')}, {len(mandatory)} mandatory"
        text = f"disabled by {by} ({how_many}): {_some(names)}"
        yield Remark(text=text, loud=bool(mandatory))
    for by, states in _by_source(judge.lowered):
        names = [one.name for one in states]
        yield Remark(text=f"mandatory, lowered to a warning by {by} ({len(names)}): {_some(names)}", loud=True)


def _by_source(states: Iterable[PolicyState]) -> Iterator[tuple[str, list[PolicyState]]]:
    found: dict[str, list[PolicyState]] = {}
    for state in states:
        found.setdefault(state.by, []).append(state)
    yield from found.items()


def _without_verdict(violations: Iterable[Violation]) -> Iterator[str]:
    """Policies that gave up over an unknown value or ended with an error."""
    for violation in violations:
        if violation.policy == _ENDED_BY_A_RULE or violation.message.startswith(
            f"can't run policy '{violation.policy}' "
        ):
            yield violation.policy


def format_gaps(policies: Policies) -> str:
    """What the checkout's judge is not asked, as one phrase; empty if it is asked everything at its own level."""
    if not policies.judges:
        return ""
    judge = policies.judges[-1]
    parts = [f"{judge.asked} of {plural(len(judge.states), 'policy', 'policies')} asked"] if judge.disabled else []
    if judge.lowered:
        parts.append(f"{len(judge.lowered)} lowered to warnings")
    return ", ".join(parts)


def changes_of(policies: Policies) -> Iterator[Remark]:
    """What the change does to its judge, what weakens it first: levels and policies alike, each setting, files by kind."""
    alike: dict[tuple[str, ...], list[JudgeChange]] = {}
    for change in policies.changes:
        key = (
            (change.kind, change.subject)
            if change.kind == "setting"
            else (change.kind, str(change.before), str(change.after), change.file)
        )
        alike.setdefault((change.kind,) if change.kind in _OF_FILES else key, []).append(change)
    for several in sorted(alike.values(), key=lambda some: (not some[0].weaker, some[0].before not in STOPS)):
        yield Remark(text=_format_changes(several), loud=any(one.weaker for one in several))


def _format_changes(several: Sequence[JudgeChange]) -> str:
    first, names = several[0], _some([_name(one) for one in several])
    where = f" ({first.file})" if first.file else ""
    if first.kind == "level":
        return f"{first.before} → {first.after}: {names}{where}"
    if first.kind == "setting":
        return f"{names}: {_value(first.before)} → {_value(first.after)}{where}"
    if first.kind == "pack-removed":
        return f"the policy pack in {first.subject}/ is removed: nothing judges after the merge"
    if first.kind in _OF_FILES:
        return f"{_OF_FILES[first.kind]}: {names}"
    happened = "removed" if first.kind == "policy-removed" else "new"
    return f"{happened}, {first.before or first.after}: {names}{where}"


def _name(one: JudgeChange) -> str:
    if one.kind not in _OF_FILES:
        return one.subject
    return f"{one.subject} (new)" if not one.before else one.subject if one.after else f"{one.subject} (removed)"


def rows_of(policies: Policies) -> tuple[tuple[str, ...], ...]:
    """Both judges side by side, the first row with their names; empty with one judge."""
    if len(policies.judges) < 2:
        return ()
    return (
        ("", *(judge.label for judge in policies.judges)),
        ("policies", *(format_asked(judge) for judge in policies.judges)),
        ("lowered to warnings", *(f"{len(judge.lowered):,}" for judge in policies.judges)),
        ("blocking violations", *(f"{judge.blocking:,}" for judge in policies.judges)),
        ("warnings", *(f"{judge.warnings:,}" for judge in policies.judges)),
    )


def labels_of(policies: Policies) -> Mapping[str, str]:
    """Label of each side, where there are two."""
    return {judge.side: judge.label for judge in policies.judges} if len(policies.judges) > 1 else {}


def changes_of_all(reports: Iterable[Report]) -> tuple[Remark, ...]:
    """What a change does to the judges of several stacks: each line once, with the stacks that it is about."""
    several = [one for one in reports if one.policies.state == "judged"]
    found: dict[Remark, list[str]] = {}
    for report in several:
        for remark in changes_of(report.policies):
            found.setdefault(remark, []).append(report.recording.stack)
    return tuple(
        remark if len(stacks) == len(several) else Remark(text=f"{', '.join(stacks)}: {remark.text}", loud=remark.loud)
        for remark, stacks in found.items()
    )


def _value(value: object) -> str:
    text = "not set" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
