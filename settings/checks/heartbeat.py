"""Check of `server.restartStalledSeconds`: the heartbeat is read from the engines' metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.engines import parse
from facts.finding import Finding
from settings.sections.engine import Engine

NO_METRICS: Final = "disable-log-stats"


def heartbeat_problems(path: str, seconds: int | None, engine: Engine) -> Iterator[Finding]:
    """Whether the engine says that it takes steps. `path`: of the setting."""
    if seconds is not None and parse(engine.extra_args).options.get(NO_METRICS, False) is not False:
        yield Finding(
            id="no-heartbeat",
            subject=path,
            found=seconds,
            allowed=f"left out while the engine has --{NO_METRICS}",
            why=f"with --{NO_METRICS} the engines report neither requests nor steps, so no stall would ever be noticed",
            write=f"remove --{NO_METRICS}, or this setting",
        )
