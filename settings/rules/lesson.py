"""What a lesson is: one rule with its condition, figure, fix and level, whoever asks it.

A stack file and a server's command line spell one option in two ways. So everything here names options as the facts do: by
vLLM's long name without dashes (`max-model-len`), or by the environment variable. In texts they stand in braces,
`{max-model-len}` or `{max-model-len=4096}`, and `settings.rules.words` spells them for the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

Level = Literal["advisory", "mandatory"]
Severity = Literal["low", "medium", "high", "critical"]
SettingType = Literal["string", "number", "integer", "boolean", "array", "object"]
Limits = Mapping[str, Any]
"""Values of a rule's settings by name. Every declared setting is there; None where it is unset."""
Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing about a rule on which teams may differ. Set per stack in the policy config file."""

    name: str
    """camelCase."""
    type: SettingType
    why: str
    """What it decides, for the README and for the schema."""
    unit: str = ""
    default: Any = None
    """None: unset, and the schema has no default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One breach of a lesson."""

    option: str
    """The option that is wrong."""
    value: object
    """What it is, vLLM's default where none is written; None where it is left out."""
    allowed: str
    """What would be accepted."""
    because: str = ""
    """What the verdict rests on: other options, the model, the traffic."""
    why: str = ""
    """The reason, where it depends on the value. Default: the lesson's evidence."""
    changes: Mapping[str, object] = field(default_factory=dict)
    """Options that mend it, None to leave one out. Empty: the lesson's fix says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a lesson says. `Lesson` adds how it is judged, where all who ask it know the same things."""

    name: str
    """kebab-case: the policy's name."""
    of: str = ""
    """The lesson's id where a lesson has two policies, one for each level. Default: `name`."""
    subject: str = "serving"
    """Heading in the pack's README."""
    statement: str
    """The rule in one line, as a fact about good servers."""
    evidence: str
    """Why, with the figure and its source."""
    level_reason: str
    """Why the level is what it is."""
    fix: str
    level: Level
    """`mandatory` refuses a stack file, `advisory` is a finding."""
    severity: Severity
    excusable: bool = True
    """Whether a workload that reproduces a published result may break it on purpose."""
    reads: tuple[str, ...] = ()
    """Options that lead to it: a stack file that sets one itself is not excused by its profile."""
    settings: tuple[Setting, ...] = ()

    @property
    def id(self) -> str:
        """Stable identifier in stack files' verdicts, in `Profile.lessons_reproduced` and in the annotation on purpose."""
        return self.of or self.name

    @property
    def defaults(self) -> Limits:
        """The settings as they are unless somebody sets them."""
        return {one.name: one.default for one in self.settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson(Told, Generic[Subject]):
    """A lesson that is judged by one function, of a stack's settings, of rendered resources and of a running server."""

    judge: Callable[[Subject, Limits], Iterator[Broken]]
    """Reads lazily: in a preview a value may be unknown, and reading it ends the rule."""
