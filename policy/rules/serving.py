"""The lessons about one vLLM server, as the settings and `fleet verify` judge them, too."""

from __future__ import annotations

from typing import Final

from engines import engine_rule
from facts.lessons.engine_lessons import ENGINE_LESSONS

RULES: Final = tuple(engine_rule(lesson) for lesson in ENGINE_LESSONS)
