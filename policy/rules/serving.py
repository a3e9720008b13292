"""The lessons about one vLLM server, as the settings and `fleet verify` judge them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engines import Engine, described, engine_rule
from environment import ENVIRONMENT, why_production
from facts.finding import Finding
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.serving_advisories import IN_PRODUCTION
from facts.lessons.words import RESOURCES
from pods import all_servers
from rule import Resource, Settings, StackRule


def _advisories_in_production(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    because = why_production(resources, settings)
    for server in all_servers(resources) if because else ():
        engine = Engine(server, because)
        for breach in IN_PRODUCTION.judge(engine, {}):
            found = f"{engine.label}: {RESOURCES.found(breach)}"
            yield RESOURCES.finding(IN_PRODUCTION, breach, subject=server.pod.resource.urn, found=found)


RULES: Final = (
    *(engine_rule(lesson) for lesson in ENGINE_LESSONS),
    StackRule(judge=_advisories_in_production, **{**described(IN_PRODUCTION), "settings": (ENVIRONMENT,)}),
)
