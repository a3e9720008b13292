"""Problems with a stack's settings: the key's path, the value, what is allowed, why, and what to write.

A `Problem` never carries a secret, so no report can print one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from facts.lessons.secrets_in_text import SECRET_TEXT, without_secrets
from facts.names import STACK_NAMES, fitted
from facts.texts import MOST_CHARACTERS, shortened
from facts.user_error import UserError
from settings.redact import Redactor, plaintexts_in
from settings.sections.section import NAMESPACE, SECRET_KEYS

Level = Literal["refused", "finding", "notice"]
_MOST_OF_A_TEXT: Final = 20 * MOST_CHARACTERS
"""Lists of what is allowed, such as all of vLLM's parsers, are shown in full."""
MOST_PROBLEMS: Final = 50
"""Problems that are shown; a long list of wrong items has one for each."""
_CLOSE: Final = 0.75
"""Likeness from which a name is taken for a misspelled one, as `SequenceMatcher.ratio` counts. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A wrong or noteworthy setting."""

    id: str
    """Stable identifier, e.g. "tp8-on-one-gpu-model". Tests, reports and `Profile.lessons` refer to it."""
    path: str
    """Path of the key in the stack file, e.g. "vllm-fleet:server.engine.maxModelLen"."""
    value: Any
    """The value given, or the default in effect; `[secret]` where key or value looks like one."""
    allowed: str
    """What is accepted: a description, or a range with its unit."""
    why: str
    """The reason, with its figure if there is one."""
    write: str
    """What to write instead, ready to paste."""
    level: Level = "refused"
    """`refused`: an error, nothing runs. `finding`: a warning, counted. `notice`: a note, not counted."""
    on_purpose: bool = False
    """True for a deliberate exception: the profile reproduces a published run, and the stack file does not set these options."""

    def __post_init__(self) -> None:
        """Replace secrets in the value and in every text, and shorten them."""
        redactor = Redactor(_secrets_at(self.path, self.value))
        object.__setattr__(self, "value", quoted(value_at(self.path, self.value)))
        object.__setattr__(self, "path", shortened(without_secrets(self.path)))
        for name in ("allowed", "why", "write"):
            object.__setattr__(self, name, shortened(redactor.text(getattr(self, name)), _MOST_OF_A_TEXT))

    def text(self) -> str:
        """The problem as lines for a terminal."""
        given = f": {shown(self.value)}" if self.value is not None else " is missing" if self.level == "refused" else ""
        verdict = {
            "refused": " is not allowed" * (self.value is not None),
            "finding": " (warning)",
            "notice": " (note)",
        }
        head = f"{self.path}{given}{verdict[self.level]}"
        return f"{head}\n  allowed: {self.allowed}\n  why:     {self.why}\n  write:   {self.write}"


class SettingsError(UserError):
    """A stack's settings are invalid. Carries every problem found."""

    def __init__(self, stack: str, problems: Iterable[Problem]) -> None:
        self.stack = stack
        self.problems = tuple(problems)
        super().__init__(self.text())

    def for_user(self) -> str:
        """All problems as text."""
        return self.text()

    def text(self) -> str:
        """All problems as text."""
        count = len(self.problems)
        head = f"Stack {shortened(without_secrets(self.stack))!r}: {count} invalid setting{'' if count == 1 else 's'}."
        more = [f"... and {count - MOST_PROBLEMS:,} more"] if count > MOST_PROBLEMS else []
        return "\n\n".join([head, *(problem.text() for problem in self.problems[:MOST_PROBLEMS]), *more])


def shown(value: Any) -> str:
    """Format a value as YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else repr(value)


def quoted(value: Any) -> Any:
    """The value, or the beginning of its text where that is long."""
    if not isinstance(value, str | list | tuple | dict | int):
        return value
    text = value if isinstance(value, str) else shown(value)
    return value if len(text) <= MOST_CHARACTERS else shortened(text)


def listed(value: Any) -> Any:
    """Convert tuples in a value to lists."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    return [listed(one) for one in value] if isinstance(value, list | tuple) else value


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The entry of `names` closest to a misspelled `name`, ignoring case; None if none is close enough."""
    by_lower = {one.lower(): one for one in names}
    wanted = name.lower()

    def likeness(one: str) -> float:
        return SequenceMatcher(None, one, wanted).ratio()

    # The first of equally close names: g2-standard-12 for 13, not g2-standard-32.
    found = max(by_lower, key=likeness, default="")
    return by_lower[found] if likeness(found) >= _CLOSE else None


def value_at(path: str, value: Any) -> Any:
    """The value without its secrets, judged by the keys of `path` and by its form."""
    found = _secrets_at(path, value)
    return Redactor(found).value(value) if found else value


def _secrets_at(path: str, value: Any) -> frozenset[str]:
    nested = value
    for name in reversed(re.split(r"[.:\[\]]+", path)):
        nested = {name: nested}
    return plaintexts_in([nested], any_name=True)


def impossible_stack(stack: str) -> Problem:
    """Problem for a stack whose name Pulumi refuses."""
    return Problem(
        id="stack-name",
        path="--stack",
        value=stack,
        allowed=STACK_NAMES,
        why="Pulumi has no stack of another name",
        write=f"the stack's name; its file is Pulumi.{fitted(stack[:100], limit=100)}.yaml",
    )


def renamed_project(name: object) -> Problem:
    """Problem for a project whose name is not the prefix of the stack files' keys."""
    return Problem(
        id="renamed-project",
        path="Pulumi.yaml: name",
        value=name,
        allowed=NAMESPACE,
        why=f"the project's name prefixes every key ({NAMESPACE}:KEY), and renaming it replaces every deployed resource",
        write=f"name: {NAMESPACE}; use one stack for each fleet: pulumi stack init NAME",
    )


def secret_in_plain_text(path: str, what: str = "") -> Problem:
    """Problem for a secret in plain text: under a secret key, or, with `what` it looks like, anywhere else."""
    return Problem(
        id="secret-in-plain-text",
        path=path,
        value=SECRET_TEXT,
        allowed="a value without a secret" if what else "an encrypted value",
        why=(f"it looks like {what}; " if what else "")
        + "plain text in a stack file ends up in version control, state and logs",
        write=f"remove it, rotate the secret, and {_place_for_secret(path)}"
        if what
        else f"pulumi config set --secret {path}",
    )


def _place_for_secret(path: str) -> str:
    if path.startswith(f"{NAMESPACE}:monitoring"):
        return "set a channel's secret: pulumi config set --secret vllm-fleet:webhookPassword (or slackToken, pagerdutyKey)"
    return "name a Secret Manager secret in server.apiKeySecret, weights.tokenSecret or registry.dockerHubTokenSecret"


def is_exposed_secret(key: str, value: object) -> bool:
    """Whether a key that must be encrypted has this plain value. `gcp:credentials` may be the path of a file."""
    space, _, name = key.partition(":")
    if space == NAMESPACE:
        return name in SECRET_KEYS and bool(value)
    return bool(value) and (key == "gcp:accessToken" or (key == "gcp:credentials" and "{" in str(value)))


def secret_in_section(path: str) -> Problem:
    """Problem for an encrypted value inside a section, or for an encrypted section."""
    return Problem(
        id="secret-in-section",
        path=path,
        value=SECRET_TEXT,
        allowed="encrypted top-level keys, or names of Secret Manager secrets",
        why="a secret inside a section encrypts the whole section, so none of it can be checked before deployment",
        write="pulumi config set --secret vllm-fleet:hfToken (or apiKey, slackToken, pagerdutyKey, webhookPassword), or name a "
        "Secret Manager secret in weights.tokenSecret or server.apiKeySecret",
    )
