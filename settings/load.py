"""Loads and checks the settings of a stack; the only reader of `pulumi.Config` in this project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from facts import strict_json
from facts.finding import Finding
from facts.ledger import LedgerError
from facts.machines import DEFAULT_MACHINE, MACHINES
from facts.names import ESC_OFFLINE, STACK_NAME
from facts.secrets_in_text import secrets_in, without_secrets
from facts.texts import nearest
from settings.checks.empty import blank, blanks, is_blank
from settings.checks.lessons import lessons
from settings.checks.placeholders import placeholders
from settings.checks.rollout import rollout_problems
from settings.checks.structure import structural_problems
from settings.problems import (
    SettingsError,
    impossible_stack,
    is_exposed_secret,
    renamed_project,
    secret_in_plain_text,
    secret_in_section,
)
from settings.sections.section import NAMESPACE, SECRET_KEYS, tuples
from settings.sections.server import Server
from settings.serving import resolve
from settings.stack import Settings

if TYPE_CHECKING:
    import pulumi

_SCALARS = frozenset({"namespace", "machine"})
_SECTIONS = frozenset(
    {
        "zones",
        "platform",
        "network",
        "cluster",
        "capacity",
        "model",
        "weights",
        "server",
        "gateway",
        "endpoint",
        "benchmark",
        "batch",
        "monitoring",
        "rollout",
        "budget",
        "spending",
        "registry",
        "results",
        "prices",
        "labels",
    }
)
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
"""Control characters, lone surrogates, and characters that are not seen or change the order of what is seen."""
_MAY_HAVE_LINES = re.compile(rf"{NAMESPACE}:(?:server|rollout)\.engine\.extra(?:Args\[[0-9]+\]|Env\..*)", re.DOTALL)
"""Values that may be JSON or a template."""
KEYS = _SCALARS | _SECTIONS | SECRET_KEYS.keys()
"""Every key of this project's namespace."""
_OTHERS = frozenset({"gcp", "kubernetes", "pulumi"})
"""Namespaces of other packages. Any other namespace may be a misspelling of this project's."""


class Secrets(NamedTuple):
    """Secret configuration values, as Pulumi secrets; None if not set."""

    hf_token: pulumi.Output[str] | None
    api_key: pulumi.Output[str] | None
    slack_token: pulumi.Output[str] | None
    pagerduty_key: pulumi.Output[str] | None


def load() -> tuple[Settings, Secrets]:
    """The running program's settings and secrets. Raises pulumi.RunError, which prints without a traceback."""
    import pulumi
    from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret

    everything = {**get_config_env(), **CONFIG.get()}
    try:
        if (project := pulumi.get_project()) != NAMESPACE:
            raise SettingsError(pulumi.get_stack(), [renamed_project(project)])
        exposed = [
            secret_in_plain_text(key)
            for key, value in everything.items()
            if is_exposed_secret(key, value) and not is_config_secret(key)
        ]
        # The engine has decrypted it: any message that quotes it would expose it.
        sealed = [secret_in_section(f"{NAMESPACE}:{name}") for name in sorted(_SECTIONS | _SCALARS)]
        if refused := exposed + [problem for problem in sealed if is_config_secret(problem.subject)]:
            raise SettingsError(pulumi.get_stack(), refused)
        settings, problems = _checked(pulumi.get_stack(), everything)
    except (SettingsError, LedgerError) as error:
        raise pulumi.RunError(str(error)) from None
    for finding in problems:
        pulumi.log.info(finding.text()) if finding.severity == "note" else pulumi.log.warn(finding.text())
    config = pulumi.Config(NAMESPACE)
    return settings, Secrets(*(config.get_secret(name) for name in SECRET_KEYS))


def accept(stack: str, config: Mapping[str, str], unopened: Sequence[str] = ()) -> Settings:
    """Settings without errors. Raises SettingsError with every error, including a placeholder project."""
    return _checked(stack, config, unopened)[0]


def parse(stack: str, config: Mapping[str, str], unopened: Sequence[str] = ()) -> Settings:
    """Typed settings from the engine's strings. Raises SettingsError with every unknown key and wrong value.

    `unopened`: ESC environments whose values are unknown (`StackFile.unopened`).
    """
    problems = [] if STACK_NAME.fullmatch(stack) else [impossible_stack(stack)]
    values: dict[str, Any] = {"stack": stack}
    for key, text in config.items():
        space, _, name = key.partition(":")
        if key in ("gcp:project", "gcp:region"):
            values[name] = text
        elif space == "gcp" and (near := nearest(name, ("project", "region"))):
            problems.append(_unknown_key(key, f"gcp:{near}"))
        elif space != NAMESPACE:
            if space not in _OTHERS and (near := nearest(space, [NAMESPACE])):
                problems.append(_unknown_key(key, f"{near}:{name}"))
        elif name in KEYS and is_blank(text):
            problems.append(blank(key))
        elif name in SECRET_KEYS:
            values[SECRET_KEYS[name]] = True
        elif name in _SCALARS:
            values[name] = text
        elif name in _SECTIONS:
            try:
                section = tuples(strict_json.loads(text, strict_json.MOST_ITEMS))
            except ValueError:
                problems.append(_not_structured(key, text))
            else:
                values[name] = section
        else:
            problems.append(_unknown_key(key))
    given = {_path(name): value for name, value in values.items() if name not in SECRET_KEYS.values()}
    problems += [problem for name, value in values.items() if name != "stack" for problem in blanks(_path(name), value)]
    problems += [secret_in_plain_text(secret.path, secret.what) for secret in secrets_in(given)]
    problems += [problem for path, value in given.items() for problem in _unprintable(path, value)]
    try:
        settings = Settings.written(values)
    except ValidationError as error:
        from settings.explain import explain

        known = {problem.subject for problem in problems}
        explained = [problem for problem in explain(error, Settings) if problem.subject not in known]
        explained += _of_the_profile(stack, values, {detail["loc"][:2] for detail in error.errors(include_url=False)})
        if unopened:
            explained = [_perhaps_of_an_environment(problem, stack, unopened) for problem in explained]
        raise SettingsError(stack, [*problems, *explained]) from None
    if problems:
        raise SettingsError(stack, problems)
    # Merges the profile with the overrides, and raises for a wrong override.
    _ = settings.serving
    try:
        _ = settings.canary
    except SettingsError as error:
        from settings.checks.rollout import with_canarys_keys

        raise SettingsError(stack, map(with_canarys_keys, error.problems)) from None
    except ValidationError as error:
        from settings.explain import explain

        raise SettingsError(stack, explain(error, Server, f"{NAMESPACE}:server")) from None
    return settings


def _checked(
    stack: str, config: Mapping[str, str], unopened: Sequence[str] = ()
) -> tuple[Settings, tuple[Finding, ...]]:
    """Settings without errors, and their warnings."""
    settings = parse(stack, config, unopened)
    problems = (*placeholders(settings), *check(settings))
    if refused := [problem for problem in problems if problem.severity == "error"]:
        raise SettingsError(stack, refused)
    return settings, problems


def check(settings: Settings) -> tuple[Finding, ...]:
    """Every problem with valid settings, of every level: limits of Google Cloud, GKE and vLLM, and the article's lessons."""
    problems = (*structural_problems(settings), *lessons(settings))
    return (
        *problems,
        *rollout_problems(settings, problems),
    )


def _of_the_profile(stack: str, values: Mapping[str, Any], wrong: set[tuple[int | str, ...]]) -> tuple[Finding, ...]:
    """Problems of profile and overrides when the settings at the locations `wrong` are wrong as well."""
    given = values.get("server", {})
    server = (
        {key: value for key, value in given.items() if ("server", key) not in wrong} if isinstance(given, dict) else {}
    )
    try:
        sound = Server.written(server)
        resolve(stack, sound, None, MACHINES.get(str(values.get("machine")), DEFAULT_MACHINE))
    except SettingsError as error:
        return tuple(
            problem for problem in error.problems if problem.id != "model-without-revision" or "model" not in values
        )
    except ValidationError:
        pass  # of a key with a lone surrogate, which no location can name; it is refused as unprintable
    return ()


def _perhaps_of_an_environment(problem: Finding, stack: str, unopened: Sequence[str]) -> Finding:
    if problem.id != "missing-key":
        return problem
    return replace(
        problem,
        why=f"{problem.why}; environment {', '.join(unopened)} may set it, but environments are not opened offline",
        write=f"{problem.write}, in Pulumi.{stack}{ESC_OFFLINE}.yaml if the environment sets it, else in the stack file",
    )


def _path(name: str) -> str:
    return f"gcp:{name}" if name in ("project", "region") else f"{NAMESPACE}:{name}"


def _unknown_key(key: str, meant: str | None = None) -> Finding:
    name = without_secrets(key).partition(":")[2]  # the rest of a cut secret is not known as one
    if meant is None and (near := nearest(name, KEYS)):
        meant = f"{NAMESPACE}:{near}"
    return Finding(
        id="unknown-key",
        subject=key,
        allowed=", ".join(sorted(KEYS)),
        why=f"unknown key{f'; did you mean {meant}?' if meant else ''}",
        write=meant or "one of the keys above, or remove it",
    )


def _not_structured(key: str, text: str) -> Finding:
    is_list = key == f"{NAMESPACE}:zones"
    return Finding(
        id="not-structured",
        subject=key,
        found=text,
        allowed="a list" if is_list else "a mapping",
        why=f"{key} is a {'list' if is_list else 'section'}, not text",
        write=f'{key}: ["europe-west4-b"]'
        if is_list
        else f"{key}: {{KEY: VALUE}}; settings/stack.schema.json lists its keys",
    )


def _unprintable(path: str, value: Any) -> Iterator[Finding]:
    """Texts with such characters, which no manifest, argument or terminal can carry."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _unprintable(path, name)
            yield from _unprintable(f"{path}.{name}", item)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _unprintable(f"{path}[{i}]", item)
    elif isinstance(value, str) and (
        character := _UNPRINTABLE.search(re.sub(r"[\t\n]", "", value) if _MAY_HAVE_LINES.fullmatch(path) else value)
    ):
        yield Finding(
            id="unprintable-text",
            subject=_UNPRINTABLE.sub("?", path),
            found=_UNPRINTABLE.sub("?", value),
            allowed="text without control characters",
            why=f"it contains U+{ord(character[0]):04X}, which an argument, a label or a file cannot carry",
            write="the text without that character",
        )
