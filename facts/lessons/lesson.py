"""A lesson: one rule with its condition, evidence, fix and level, for stack files, policies and running servers.

A stack file and a command line name an option differently. Lessons use vLLM's long name without dashes (`max-model-len`), or the
environment variable. Texts have them in braces, `{max-model-len}` or `{max-model-len=4096}`; `facts.lessons.words` formats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

Level = Literal["advisory", "mandatory"]
Severity = Literal["low", "medium", "high", "critical"]
SettingType = Literal["string", "number", "integer", "boolean", "array", "object"]
Limits = Mapping[str, Any]
"""Values of all settings of a rule by name; None if unset."""
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A configurable value of a rule, set per stack in the policy config file."""

    name: str
    """camelCase."""
    type: SettingType
    why: str
    """Description for the README and the schema."""
    unit: str = ""
    default: Any = None
    """None: unset, and the schema has no default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """How a lesson is broken. `words` makes it a finding."""

    option: str
    """The option that is wrong."""
    value: object
    """Its value, or vLLM's default; None if it is left out."""
    allowed: str
    """What is accepted."""
    because: str = ""
    """The facts behind the verdict: other options, the model, the traffic."""
    why: str = ""
    """The reason, if it depends on the value. Default: the lesson's evidence."""
    changes: Mapping[str, object] = field(default_factory=dict)
    """Options that fix it, None to remove one. Empty: use the lesson's fix."""
    instead: Mapping[str, object] = field(default_factory=dict)
    """Options that fix it another way, which comes first: a declaration may be wrong, not the server."""
    is_advisory: bool = False
    """Whether this is a warning, whatever the lesson's level: the server works, and could do better."""
    reason: str = ""
    """The reason given for the option, where the lesson accepts one: this is then a note, for reviewers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The texts and the level of a rule. Its subclasses add the function that judges."""

    name: str
    """kebab-case: the policy's name, and the id in findings and in the annotation `on-purpose`."""
    subject: str = "serving"
    """Heading in the pack's README."""
    statement: str
    """The requirement in one sentence."""
    evidence: str
    """Why: the reason, with its figure and source."""
    fix: str
    level: Level
    """`mandatory` is an error in a stack file, `advisory` a warning."""
    severity: Severity
    settings: tuple[Setting, ...] = ()

    @property
    def defaults(self) -> Limits:
        """Default values of the settings."""
        return {setting.name: setting.default for setting in self.settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson(Rule, Generic[Subject]):
    """A rule that judges a stack's settings, rendered resources and a running server alike."""

    level_reason: str
    """The reason for the level."""
    judge: Callable[[Subject, Limits], Iterator[Breach]]
    """Must read lazily: a value may be unknown in a preview, and reading it ends the rule."""
