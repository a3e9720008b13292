"""Rules for options and variables of a vLLM server by how far they are trusted: `facts/data/vllm-judged.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts import judged
from facts.judged import Judged
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.lessons.words import RESOURCES, variable
from facts.secrets_in_text import without_secrets

OPTION_WITH_REASON: Final = "option-with-reason"
APART_IN_A_POD: Final = (
    "prefill apart from decode (server.shape); prompts go from one engine to another of the same pod"
)
"""Reason that this program gives for options that it sets: nobody wrote it, and nobody has to review it."""
_LONGEST: Final = 80
"""Characters of a value that are shown."""


def parts(server: Served) -> Iterator[tuple[str, object, Judged]]:
    """Every option, part of a JSON option and variable that is not harmless: its name for a lesson, its value, its class."""
    release = server.release
    known = release.options.kinds if release is not None and release.known else None
    for option, value in server.flags.options.items():
        if known is not None and option not in known:
            # flags-vllm-refuses reports it.
            continue
        for name, verdict in judged.option(option, value):
            yield name, _at(value, name), verdict
    for name, text in server.variables.items():
        yield variable(name), "set", judged.variable(name, text)


def reason(server: Served, option: str) -> str | None:
    """The reason given for an option, for an outer part of it, or for a variable."""
    given = {key_of(key): text for key, text in server.reasons.items()}
    while option not in given:
        option, dot, _ = option.rpartition(".")
        if not dot:
            return None
    return given[option]


def key_of(key: str) -> str:
    """The option of a key of `server.reasons`, such as `--trust_remote_code` or `VLLM_PLUGINS`."""
    if not key.startswith("--"):
        return variable(key)
    option, dot, rest = key.removeprefix("--").partition(".")
    return option.replace("_", "-") + dot + rest


def needs_reason(server: Served, verdict: Judged) -> bool:
    """Whether a reason is enough, and needed."""
    return verdict.trust == "reason" or (verdict.here and not server.is_declared)


def _at(value: object, name: str) -> object:
    """The value of a part of an option, shortened."""
    for key in name.split(".")[1:]:
        value = value[key] if isinstance(value, dict) and key in value else value
    if isinstance(value, bool):
        return value
    text = without_secrets(str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _refused(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value, verdict in parts(server):
        if verdict.trust == "refused" and not needs_reason(server, verdict):
            yield Breach(
                option=option,
                value=value,
                allowed="left out",
                why=f"{verdict.why}; {verdict.write}",
                changes={option: None},
            )


def _without_reason(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value, verdict in parts(server):
        if needs_reason(server, verdict) and reason(server, option) is None:
            name = RESOURCES.name(option)
            yield Breach(
                option=option,
                value=value,
                allowed="left out, or with a reason that reviewers see",
                why=verdict.why,
                changes={"reasons": {name: "..."}},
            )


def _with_reason(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value, verdict in parts(server):
        given = reason(server, option)
        if given in (None, APART_IN_A_POD):
            continue
        if needs_reason(server, verdict) or verdict.trust == "unknown":
            yield Breach(
                option=option, value=value, allowed="with its reason", because=f"reason: {given}", why=verdict.why
            )


def _not_judged(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value, verdict in parts(server):
        if verdict.trust == "unknown" and reason(server, option) is None:
            yield Breach(
                option=option,
                value=value,
                allowed="options and variables that were judged, or any other with a reason",
                why=verdict.why,
                changes={"reasons": {RESOURCES.name(option): "..."}},
            )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="server-opened",
        statement="No option or variable runs code from elsewhere, opens the server to its clients, or cannot work in its pod.",
        evidence="every option and variable of vLLM 0.18.1 and 0.33.0 has a class in facts/data/vllm-judged.txt; of the class refused are "
        "classes of Python and libraries to load, vLLM's development mode, pickled messages and adapters loaded on request",
        level_reason="any client, or whoever wrote the option, could control the server and read what it serves",
        fix="remove the option or variable",
        level="mandatory",
        severity="critical",
        judge=_refused,
    ),
    Lesson(
        name="option-without-reason",
        statement="An option or variable that runs code of the model, reads or sends data, or lifts a limit has a reason.",
        evidence="such options are needed sometimes and copied often: `--trust-remote-code`, request logs, trace endpoints, proxies, "
        "adapters (class reason in facts/data/vllm-judged.txt)",
        level_reason="a reviewer can only judge it with its reason",
        fix="remove it, or give a reason of 10 to 500 characters in {reasons}",
        level="mandatory",
        severity="high",
        judge=_without_reason,
    ),
    Lesson(
        name=OPTION_WITH_REASON,
        statement="Options and variables with a reason are shown with it.",
        evidence="the reason is in {reasons}",
        level_reason="the reason was given, and a reviewer should read it",
        fix="nothing, if the reason holds",
        level="advisory",
        severity="low",
        judge=_with_reason,
    ),
    Lesson(
        name="option-not-judged",
        statement="Every option and variable was judged.",
        evidence="facts/data/vllm-judged.txt has every option and variable of vLLM 0.18.1 and 0.33.0; a new release has others",
        level_reason="most options are harmless",
        fix="remove it, or give a reason in {reasons}",
        level="advisory",
        severity="medium",
        judge=_not_judged,
    ),
)
