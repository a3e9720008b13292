"""The lesson that applies to what was found, in the words that settings/rules and the ledger have for it.

Nothing is told twice in this repository: what the server says is laid over the stack's own engine, and the same lessons
judge it that judge the stack file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.verify.findings import Lesson

if TYPE_CHECKING:
    from settings.problems import Problem
    from settings.stack import Settings


def repeated(settings: Settings, found: Mapping[str, Any], image_tag: str | None = None) -> tuple[Lesson, ...]:
    """Lessons that the running engine repeats and the stack file does not. `found`: engine settings by camelCase name."""
    from pydantic import ValidationError

    from settings.checks.declared_server import DeclaredServer
    from settings.checks.lessons import engine_problems

    try:
        engine = settings.serving.engine.but(found)
    except ValidationError:
        return ()  # cannot be a setting of ours
    known = {problem.id for problem in engine_problems(settings, DeclaredServer(settings))}
    running = engine_problems(settings, DeclaredServer(settings, engine=engine, tag=image_tag))
    return tuple(_lesson(one) for one in running if one.id not in known)


def declared(settings: Settings, id_: str) -> tuple[Lesson, ...]:
    """The lesson of that id where the stack's own settings repeat it."""
    from settings.checks.lessons import lessons

    return tuple(_lesson(one, write=one.write) for one in lessons(settings) if one.id == id_)


def known(name: str) -> Lesson:
    """A lesson whether or not the settings repeat it."""
    from settings.checks.declared_server import stack_file
    from settings.checks.lessons import lesson_named

    told = lesson_named(name)
    return Lesson(id=told.id, text=stack_file().text(told.evidence))


def acceptance_falls() -> Lesson:
    """What the article saw of drafts that are not accepted. Its id is the ledger's row."""
    from facts.figures import published

    row = published("phases.tp8-mtp5")
    shares = ", ".join(f"{one:g}" for one in row.details["acceptance_percent_by_position"])
    return Lesson(
        id=row.id,
        text=f"{row.title}: acceptance by position {shares} %; a draft that is not accepted costs a step's work for nothing",
    )


def proxy_only_subnet(settings: Settings) -> Lesson:
    """Why a Gateway stays unprogrammed. For a stack that joins another's network, that network's setting is meant."""
    lesson = known("gateway-without-proxy-only-subnet")
    # A stack with the gateway has the subnet unless it says otherwise.
    says_no = settings.network.proxy_only.enabled is False
    return replace(lesson, write="network: {proxyOnly: {enabled: true}}") if says_no else lesson


def _lesson(problem: Problem, *, write: str = "") -> Lesson:
    # Where the stack file is right, there is nothing to write into it.
    return Lesson(id=problem.id, text=problem.why, write=write)
