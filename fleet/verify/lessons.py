"""Finds the lesson for a difference, from facts/lessons and facts/data.

The found values are applied to the stack's engine settings, and the same rules
check them that check the stack file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from facts.figures import published
from facts.finding import Finding
from settings.checks.declared_server import DeclaredServer, stack_file
from settings.checks.lessons import engine_problems, lesson_named, lessons

if TYPE_CHECKING:
    from settings.stack import Settings


def repeated(settings: Settings, found: Mapping[str, Any], image_tag: str | None = None) -> tuple[Finding, ...]:
    """Lessons that apply to the running engine but not to the stack file. `found`: engine settings by camelCase name."""
    try:
        engine = settings.serving.engine.but(found)
    except ValidationError:
        return ()  # not a valid setting
    known = {problem.id for problem in engine_problems(settings, DeclaredServer(settings))}
    running = engine_problems(settings, DeclaredServer(settings, engine=engine, tag=image_tag))
    return tuple(_noted(one.id, one.why) for one in running if one.id not in known)  # the stack file needs no fix


def declared(settings: Settings, id_: str) -> tuple[Finding, ...]:
    """The lesson with this id, if it applies to the stack's settings."""
    return tuple(_noted(lesson.id, lesson.why, lesson.write) for lesson in lessons(settings) if lesson.id == id_)


def known(name: str) -> Finding:
    """The lesson with this id, regardless of the settings."""
    told = lesson_named(name)
    return _noted(told.name, stack_file().text(told.evidence))


def acceptance_falls() -> Finding:
    """The article's figures on rejected drafts; the id is a row in facts/data."""
    row = published("phases.tp8-mtp5")
    shares = ", ".join(f"{one:g}" for one in row.details["acceptance_percent_by_position"])
    return _noted(row.id, f"{row.title}: acceptance by position {shares} %; a rejected draft wastes a step's work")


def proxy_only_subnet(settings: Settings) -> Finding:
    """Why a Gateway stays unprogrammed. For a guest stack, the fix is in the other stack's network."""
    lesson = known("gateway-without-proxy-only-subnet")
    # A stack with the gateway has the subnet unless disabled.
    says_no = settings.network.proxy_only.enabled is False
    return replace(lesson, write="network: {proxyOnly: {enabled: true}}") if says_no else lesson


def _noted(id_: str, why: str, write: str = "") -> Finding:
    """A lesson: the id of a rule in facts/lessons or of a row in facts/data. The check it belongs to becomes its subject."""
    return Finding(id=id_, subject="", severity="note", found="lesson", why=why, write=write)
