"""Every lesson about one vLLM server."""

from __future__ import annotations

from typing import Final

from facts.lessons import (
    serving,
    serving_cache,
    serving_opened,
    serving_start,
    serving_stream,
    serving_transfer,
)
from facts.lessons.lesson import Lesson
from facts.lessons.served import Served

ENGINE_LESSONS: Final[tuple[Lesson[Served], ...]] = (
    *serving.LESSONS,
    *serving_cache.LESSONS,
    *serving_transfer.LESSONS,
    *serving_start.LESSONS,
    *serving_stream.LESSONS,
    *serving_opened.LESSONS,
)
