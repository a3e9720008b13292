"""What a stack's configuration switches off, reported as a policy of its own that cannot be switched off.

A policy sees only its own configuration, so the engine's call that configures the whole pack is read. Source: Pulumi's Analyzer
protocol, `Configure`: level and settings of every policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pulumi_policy import EnforcementLevel, ReportViolation, Severity, StackValidationArgs, StackValidationPolicy

from facts.lessons.secrets_in_text import without_secrets
from facts.lessons.verdict import RULES_NOT_ASKED, Verdict, encode
from rule import AnyRule

STATEMENT: Final = "Every rule is asked, at its own level or a higher one, and with the limit that it needs."
_ADVISORY: Final = 0
_DISABLED: Final = 2
"""Numbers of `EnforcementLevel` in the protocol."""
_MOST_NAMES: Final = 8


class Configured:
    """Levels and settings as the engine gave them last, by policy; empty before."""

    def __init__(self) -> None:
        self.levels: Mapping[str, int] = {}
        self.settings: Mapping[str, frozenset[str]] = {}
        """Names of those that have a value."""

    def listen(self, servicer: Any) -> None:
        """Read every `Configure` of this class of servicers. A pack that is disabled as a whole still reports that it is."""
        configure = servicer.Configure

        def read_and_configure(this: Any, request: Any, context: Any) -> Any:
            given = request.policyConfig
            self.levels = {name: one.enforcementLevel for name, one in given.items()}
            self.settings = {name: frozenset(one.properties) for name, one in given.items()}
            if self.levels.get(RULES_NOT_ASKED) == _DISABLED:
                given[RULES_NOT_ASKED].enforcementLevel = _ADVISORY
            return configure(this, request, context)

        servicer.Configure = read_and_configure

    def told(self, rules: Sequence[AnyRule]) -> Iterator[str]:
        """What is disabled, lowered and without its limit."""
        off = [one for one in rules if self.levels.get(one.name) == _DISABLED]
        if off:
            mandatory = [one for one in off if one.level == "mandatory"]
            names = _some([*mandatory, *(one for one in off if one.level != "mandatory")])
            yield f"disabled ({len(off)} of {len(rules)} rules, {len(mandatory)} of them mandatory): {names}"
        lowered = [one for one in rules if one.level == "mandatory" and self.levels.get(one.name) == _ADVISORY]
        if lowered:
            yield f"mandatory, lowered to a warning ({len(lowered)}): {_some(lowered)}"
        for rule in rules:
            for setting in rule.settings:
                if setting.needed and rule not in off and setting.name not in self.settings.get(rule.name, ()):
                    yield f"{rule.name} has no {setting.name} and judges nothing"


def policy(rules: Sequence[AnyRule], configured: Configured) -> StackValidationPolicy:
    """The policy that reports it, once per stack."""

    def validate(_: StackValidationArgs, report: ReportViolation) -> None:
        if parts := list(configured.told(rules)):
            verdict = Verdict(
                what="; ".join(parts),
                why="what is not asked finds nothing, and a change can switch off the rule that would stop it",
                fix="remove the entries from the stack's policy config file, set the limit, and pass the file with "
                "--policy-pack-config",
            )
            report(without_secrets(encode(verdict)), None)

    return StackValidationPolicy(
        name=RULES_NOT_ASKED,
        description=STATEMENT,
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
        severity=Severity.HIGH,
    )


def _some(rules: Sequence[AnyRule]) -> str:
    names = ", ".join(one.name for one in rules[:_MOST_NAMES])
    return f"{names} and {len(rules) - _MOST_NAMES} more" if len(rules) > _MOST_NAMES else names
