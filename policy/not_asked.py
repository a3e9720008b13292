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
            write="remove the entries from the stack's policy config file, set the limit, and pass the file with --policy-pack-config",
        )


def _parts(rules: Sequence[AnyRule], configured: Mapping[str, tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    off = [one for one in rules if configured[one.name][0] == _DISABLED]
    if off:
        mandatory = [one for one in off if one.level == "mandatory"]
        names = _some([*mandatory, *(one for one in off if one.level != "mandatory")])
        yield f"disabled ({len(off)} of {len(rules)} rules, {len(mandatory)} of them mandatory): {names}"
    lowered = [one for one in rules if one.level == "mandatory" and configured[one.name][0] == _ADVISORY]
    if lowered:
        yield f"mandatory, lowered to a warning ({len(lowered)}): {_some(lowered)}"
    for rule in rules:
        for setting in rule.settings:
            if setting.needed and rule not in off and configured[rule.name][1][setting.name] is None:
                yield f"{rule.name} has no {setting.name} and judges nothing"


def _some(rules: Sequence[AnyRule]) -> str:
    names = ", ".join(rule.name for rule in rules[:_MOST_NAMES])
    return f"{names} and {len(rules) - _MOST_NAMES} more" if len(rules) > _MOST_NAMES else names
