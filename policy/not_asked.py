"""What a stack's configuration switches off, reported as a policy of its own that cannot be switched off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from facts.finding import Finding
from facts.lessons.verdict import RULES_NOT_ASKED
from rule import AnyRule

STATEMENT: Final = "Every rule is asked, at its own level or a higher one, and with the limit that it needs."
_ADVISORY: Final = 0
_DISABLED: Final = 2
"""Numbers of `EnforcementLevel` in the protocol."""
_MOST_NAMES: Final = 8


def told(rules: Sequence[AnyRule], configured: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[Finding]:
    """One finding, if anything is disabled, lowered or without its limit. `configured`: level and settings of every policy."""
    if parts := list(_parts(rules, configured)):
        yield Finding(
            id=RULES_NOT_ASKED,
            subject="",
            severity="warning",
            found="; ".join(parts),
            why="what is not asked finds nothing, and a change can switch off the rule that would stop it",
            write="; ".join(_mended(rules, configured)),
        )


def _mended(rules: Sequence[AnyRule], configured: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    if any(_is_off_or_lowered(rule, configured) for rule in rules):
        yield "remove what disables or lowers rules from policy/config/STACK.json"
    for rule, setting in _missing(rules, configured):
        yield f'write {{"{rule.name}": {{"{setting}": NUMBER}}}} to policy/config/STACK.json, a new file if there is none'
    yield "pass that file with --policy-pack-config"


def _is_off_or_lowered(rule: AnyRule, configured: Mapping[str, tuple[int, Mapping[str, Any]]]) -> bool:
    level = configured[rule.name][0]
    return level == _DISABLED or (rule.level == "mandatory" and level == _ADVISORY)


def _missing(
    rules: Sequence[AnyRule], configured: Mapping[str, tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[AnyRule, str]]:
    """Rules that are on, with the limit that they lack."""
    for rule in rules:
        level, given = configured[rule.name]
        for setting in rule.settings:
            if setting.needed and level != _DISABLED and given[setting.name] is None:
                yield rule, setting.name


def _parts(rules: Sequence[AnyRule], configured: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    off = [one for one in rules if configured[one.name][0] == _DISABLED]
    if off:
        mandatory = [one for one in off if one.level == "mandatory"]
        names = _some([*mandatory, *(one for one in off if one.level != "mandatory")])
        yield f"disabled ({len(off)} of {len(rules)} rules, {len(mandatory)} of them mandatory): {names}"
    lowered = [one for one in rules if one.level == "mandatory" and configured[one.name][0] == _ADVISORY]
    if lowered:
        yield f"mandatory, lowered to a warning ({len(lowered)}): {_some(lowered)}"
    for rule, setting in _missing(rules, configured):
        yield f"{rule.name} has no {setting} and judges nothing"


def _some(rules: Sequence[AnyRule]) -> str:
    names = ", ".join(rule.name for rule in rules[:_MOST_NAMES])
    return f"{names} and {len(rules) - _MOST_NAMES} more" if len(rules) > _MOST_NAMES else names
