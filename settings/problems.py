"""The error of a stack whose settings are refused, and findings that several readers of stack files make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from facts.finding import Finding
from facts.names import STACK_NAMES
from facts.secrets_in_text import SECRET_TEXT, without_secrets
from facts.texts import shortened
from facts.user_error import UserError
from settings.sections.section import NAMESPACE, SECRET_KEYS

MOST_PROBLEMS: Final = 50
"""Problems that are shown; a long list of wrong items has one for each."""


class SettingsError(UserError):
    """A stack's settings are invalid. Carries every problem found."""

    _what = "invalid setting"

    def __init__(self, stack: str, problems: Iterable[Finding]) -> None:
        self.stack = stack
        self.problems = tuple(problems)
        super().__init__(self.text())

    def for_user(self) -> str:
        """All problems as text."""
        return self.text()

    def text(self) -> str:
        """All problems as text."""
        count = len(self.problems)
        head = f"Stack {shortened(without_secrets(self.stack))!r}: {count} {self._what}{'' if count == 1 else 's'}."
        more = [f"... and {count - MOST_PROBLEMS:,} more"] if count > MOST_PROBLEMS else []
        return "\n\n".join([head, *(problem.text() for problem in self.problems[:MOST_PROBLEMS]), *more])


class ArgumentsError(SettingsError):
    """The command line's arguments for a stack file are wrong, not the file."""

    _what = "wrong argument"


def listed(value: Any) -> Any:
    """A value as JSON data: tuples as lists, and what a program gave of another type by its type's name."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [listed(one) for one in value]
    return value if isinstance(value, str | int | float | None) else f"a value of type {type(value).__name__}"


def impossible_stack(stack: str) -> Finding:
    """Finding for a stack whose name Pulumi refuses."""
    return Finding(
        id="stack-name",
        subject="--stack",
        found=stack,
        allowed=STACK_NAMES,
        why="Pulumi has no stack of another name",
        write="the stack's name; its file is Pulumi.NAME.yaml",
    )


def renamed_project(name: object) -> Finding:
    """Finding for a project whose name is not the prefix of the stack files' keys."""
    return Finding(
        id="renamed-project",
        subject="Pulumi.yaml: name",
        found=name,
        allowed=NAMESPACE,
        why=f"the project's name prefixes every key ({NAMESPACE}:KEY), and renaming it replaces every deployed resource",
        write=f"name: {NAMESPACE}; use one stack for each fleet: pulumi stack init NAME. "
        "A program of your own has no such keys: pulumi preview shows it (docs/own-program.md)",
    )


def secret_in_plain_text(path: str, what: str = "") -> Finding:
    """Finding for a secret in plain text: under a secret key, or, with `what` it looks like, anywhere else."""
    return Finding(
        id="secret-in-plain-text",
        subject=path,
        found=SECRET_TEXT,
        allowed="a value without a secret" if what else "an encrypted value",
        why=(f"it looks like {what}; " if what else "")
        + "plain text in a stack file ends up in version control, state and logs",
        write=f"remove it, rotate the secret, and {_place_for_secret(path)}"
        if what
        else f"pulumi config set --secret {path}",
    )


def _place_for_secret(path: str) -> str:
    if path.startswith(f"{NAMESPACE}:monitoring"):
        return "set a channel's secret: pulumi config set --secret vllm-fleet:slackToken (or pagerdutyKey)"
    return "name a Secret Manager secret in server.apiKeySecret, weights.tokenSecret or registry.dockerHubTokenSecret"


def is_exposed_secret(key: str, value: object) -> bool:
    """Whether a key that must be encrypted has this plain value. `gcp:credentials` may be the path of a file."""
    space, _, name = key.partition(":")
    if space == NAMESPACE:
        return name in SECRET_KEYS and bool(value)
    return bool(value) and (key == "gcp:accessToken" or (key == "gcp:credentials" and "{" in str(value)))


def secret_in_section(path: str) -> Finding:
    """Finding for an encrypted value inside a section, or for an encrypted section."""
    return Finding(
        id="secret-in-section",
        subject=path,
        found=SECRET_TEXT,
        allowed="encrypted top-level keys, or names of Secret Manager secrets",
        why="a secret inside a section encrypts the whole section, so none of it can be checked before deployment",
        write="pulumi config set --secret vllm-fleet:hfToken (or apiKey, slackToken, pagerdutyKey), or name a "
        "Secret Manager secret in weights.tokenSecret or server.apiKeySecret",
    )
