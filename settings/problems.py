"""How a wrong setting is told to a person: where, what was given, what is allowed, why, what to write.

No `Problem` carries a secret, so no report of one can show it, in whatever format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from settings.redact import Redactor, plaintexts_in
from settings.rules.secrets_in_text import SECRET_TEXT, without_secrets
from settings.sections.section import NAMESPACE

Level = Literal["refused", "finding", "notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing about the settings that a person should know before paying for it."""

    id: str
    """Stable identifier, e.g. "tp8-on-one-gpu-model"; tests, reports and `Profile.lessons` refer to it."""
    path: str
    """The key's path as it is written in the stack file, e.g. "vllm-fleet:server.engine.maxModelLen"."""
    value: Any
    """The value that was given (or the default that applies); `[secret]` where key or value looks like one."""
    allowed: str
    """What would be accepted, in words or as a range with its unit."""
    why: str
    """The reason, with its figure where there is one."""
    write: str
    """What to write instead, ready to paste."""
    level: Level = "refused"
    """`refused`: nothing runs. `finding`: shown, counted. `notice`: shown."""
    on_purpose: bool = False
    """The profile reproduces a published row that teaches this, and the stack file left the settings concerned alone."""

    def __post_init__(self) -> None:
        """Take secrets out: what a key of the path calls one, and what looks like one, in the value and in every sentence."""
        redactor = Redactor(_secrets_at(self.path, self.value))
        object.__setattr__(self, "value", value_at(self.path, self.value))
        object.__setattr__(self, "path", without_secrets(self.path))
        for name in ("allowed", "why", "write"):
            object.__setattr__(self, name, redactor.text(getattr(self, name)))

    def text(self) -> str:
        """The problem as the few lines that a terminal shows."""
        verdict = {"refused": "is refused", "finding": "deserves a look", "notice": "(notice)"}[self.level]
        given = f"{shown(self.value)} {verdict}"
        if self.value is None:
            given = "missing" if self.level == "refused" else f"not set; {verdict}"
        return f"{self.path}: {given}\n  allowed: {self.allowed}\n  why:     {self.why}\n  write:   {self.write}"


class SettingsError(Exception):
    """The stack's settings cannot be used. Carries every problem found, not only the first."""

    def __init__(self, stack: str, problems: Iterable[Problem]) -> None:
        self.stack = stack
        self.problems = tuple(problems)
        super().__init__(self.text())

    def text(self) -> str:
        """All problems, ready to print."""
        count = len(self.problems)
        head = f"Stack {without_secrets(self.stack)!r}: {count} setting{'' if count == 1 else 's'} cannot be used."
        return "\n\n".join([head, *(problem.text() for problem in self.problems)])


def shown(value: Any) -> str:
    """A value as YAML has it, where Python writes another word."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else repr(value)


def listed(value: Any) -> Any:
    """A value with lists where the settings have tuples, as the stack file has it."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    return [listed(one) for one in value] if isinstance(value, list | tuple) else value


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that a misspelt `name` was meant for, capitals aside; None where none is near enough."""
    by_lower = {one.lower(): one for one in names}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None


def value_at(path: str, value: Any) -> Any:
    """A value as it may be shown at its place in a stack file: as it is, or without its secrets."""
    found = _secrets_at(path, value)
    return Redactor(found).value(value) if found else value


def _secrets_at(path: str, value: Any) -> frozenset[str]:
    nested = value
    for name in reversed(re.split(r"[.:\[\]]+", path)):
        nested = {name: nested}
    return plaintexts_in([nested], any_name=True)


def renamed_project(name: object) -> Problem:
    """The refusal of a project that is not called as the keys of every stack file begin."""
    return Problem(
        id="renamed-project",
        path="Pulumi.yaml: name",
        value=name,
        allowed=NAMESPACE,
        why="Pulumi takes a stack's keys by the project's name, and stack files, settings and schema all say "
        f"{NAMESPACE}:KEY; a new name is also a new identity of every resource, which replaces what is up",
        write=f"name: {NAMESPACE}, and tell your fleets apart by their stacks: pulumi stack init NAME",
    )


def secret_in_plain_text(path: str, what: str = "") -> Problem:
    """The refusal of a secret that is not encrypted: of a key that is for one, or, where `what` says what it looks like, of a
    value anywhere else.
    """
    return Problem(
        id="secret-in-plain-text",
        path=path,
        value=SECRET_TEXT,
        allowed="a value without a secret" if what else "an encrypted value",
        why=(f"it looks like {what}; " if what else "")
        + "plain text in a stack file or in the stack's configuration ends in version control, state and logs",
        write=f"nothing secret here ({_place_for_secret(path)}), and replace the secret, because it has been written down"
        if what
        else f"pulumi config set --secret {path}",
    )


def _place_for_secret(path: str) -> str:
    if path.startswith(f"{NAMESPACE}:monitoring"):
        return (
            "`pulumi config set --secret vllm-fleet:webhookPassword`, or slackToken, or pagerdutyKey, takes a channel's"
        )
    return "server.apiKeySecret, weights.tokenSecret and registry.dockerHubTokenSecret take the names of Secret Manager secrets"


def secret_in_section(path: str) -> Problem:
    """The refusal of an encrypted value inside a section, or of an encrypted section."""
    return Problem(
        id="secret-in-section",
        path=path,
        value=SECRET_TEXT,
        allowed="secrets as top-level keys of their own, or names of Secret Manager secrets",
        why="a secret inside a section makes the whole section secret: nothing in it could be checked before it is paid for",
        write="`pulumi config set --secret vllm-fleet:hfToken` (or apiKey, slackToken, pagerdutyKey, webhookPassword), or name a Secret "
        "Manager secret in weights.tokenSecret or server.apiKeySecret",
    )
