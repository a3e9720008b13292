"""The liveness probe of a server that restarts when an engine stalls: runs in the server's container, standard library only.

It fails when /health fails, as the probe without it does, and when an engine has had running requests and taken no step for
`--stalled-seconds`. vLLM's /health looks only at whether an engine died (0.18.1 and 0.33.0, `AsyncLLM.check_health`), so a
hung engine answers 200.

A step is any change in what the engine reports of itself. The histogram alone does not do: it counts only steps that return
tokens, and a long prompt read in chunks returns none for minutes, while the blocks of its cache grow. Never a verdict: a page
of metrics that does not come (a busy server), an idle, sleeping or paused engine, what an earlier container noted.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEALTH_SECONDS = 10.0
"""As the probe without this program."""
METRICS_SECONDS = 5.0
PAUSED_SECONDS = 2.0
RUNNING = "vllm:num_requests_running"
STEPS = (RUNNING, "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:iteration_tokens_total_count")
"""Series of one engine that only its steps change. Source: vLLM 0.18.1 and 0.33.0, v1/metrics/loggers.py,
PrometheusStatLogger.record: the first three are set in every step, the last only in steps with outputs."""
SLEEP = "vllm:engine_sleep_state"
FIRST_PROCESS = Path("/proc/1/stat")

_SAMPLE = re.compile(r'^(?P<name>[\w:]+)\{(?P<labels>.*\bengine="(?P<engine>[^"]*)".*)\} (?P<value>\S+)', re.MULTILINE)


@dataclass
class Engine:
    """What one engine reports."""

    values: dict[str, float] = field(default_factory=dict)
    asleep: bool = False

    @property
    def is_busy(self) -> bool:
        """Whether it must take steps."""
        return self.values.get(RUNNING, 0) > 0 and not self.asleep

    def stands(self, before: Mapping[str, float] | None) -> bool:
        """Whether it must take steps and has taken none since it reported `before`."""
        return self.is_busy and self.values == before


def engines_of(page: str) -> dict[str, Engine]:
    """The engines of a page of metrics, by their label."""
    engines: dict[str, Engine] = {}
    for sample in _SAMPLE.finditer(page):
        name, label = sample["name"], sample["engine"]
        if name not in (*STEPS, SLEEP):
            continue
        with contextlib.suppress(ValueError):
            value = float(sample["value"])
            engine = engines.setdefault(label, Engine())
            if name == SLEEP:
                engine.asleep |= 'sleep_state="awake"' in sample["labels"] and value == 0
            else:
                engine.values[name] = engine.values.get(name, 0.0) + value
    return engines


def noted(engines: Mapping[str, Engine], before: Mapping[str, Any], now: float) -> dict[str, Any]:
    """What to keep of each engine that must take steps: its values, and since when they are the same."""
    notes: dict[str, Any] = {}
    for label, engine in engines.items():
        if engine.is_busy:
            last = before.get(label, {})
            stands = engine.stands(last.get("values")) and last["since"] <= now
            notes[label] = {"values": engine.values, "since": last["since"] if stands else now}
    return notes


def stalled(notes: Mapping[str, Any], now: float, limit_seconds: float) -> dict[str, float]:
    """Seconds without a step of each engine that has stood still for too long, by label."""
    return {label: now - note["since"] for label, note in notes.items() if now - note["since"] >= limit_seconds}


def fetch(host: str, path: str, seconds: float) -> str | None:
    """A page, or None without a whole successful answer within that time."""
    pages: list[str] = []

    def ask() -> None:
        connection = http.client.HTTPConnection(host, timeout=seconds)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            if 200 <= answer.status < 400:
                pages.append(text)

    # A thread: the time-out of a socket starts again with every byte.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return pages[0] if pages else None


def is_paused(host: str) -> bool:
    """Whether the server says that it is paused (vLLM's endpoints for training); it then keeps its running requests."""
    try:
        return json.loads(fetch(host, "/is_paused", PAUSED_SECONDS) or "{}").get("is_paused") is True
    except (ValueError, AttributeError):
        return False


def container() -> str:
    """Start of the container's first process: a new container does not read an earlier one's notes."""
    try:
        return FIRST_PROCESS.read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def read(state: Path) -> dict[str, Any]:
    """The notes of this container's last probe; nothing where they cannot be read."""
    try:
        kept = json.loads(state.read_text())
        notes = kept["engines"] if kept["container"] == container() else {}
        return {label: note for label, note in notes.items() if isinstance(note["since"], float)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write(state: Path, notes: Mapping[str, Any]) -> None:
    """Keep the notes for the next probe. Without them it has nothing to compare, and passes."""
    new = state.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_text(json.dumps({"container": container(), "engines": notes}))
        new.replace(state)


def probe(host: str, state: Path, limit_seconds: float, now: float) -> str:
    """Why the server should restart; empty while it should not."""
    if fetch(host, "/health", HEALTH_SECONDS) is None:
        return "/health does not answer"
    page = fetch(host, "/metrics", METRICS_SECONDS)
    if page is None:
        return ""
    notes = noted(engines_of(page), read(state), now)
    stands = stalled(notes, now, limit_seconds)
    if stands and is_paused(host):
        notes, stands = {}, {}
    write(state, notes)
    return ", ".join(
        f"engine {label}: requests running, no step for {seconds:.0f} s" for label, seconds in stands.items()
    )


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="check_heartbeat")
    parser.add_argument("--server", required=True, help="host and port of vLLM")
    parser.add_argument("--stalled-seconds", type=float, required=True)
    parser.add_argument("--state", type=Path, required=True, help="file for what the next probe compares with")
    return parser.parse_args(arguments)


def main() -> int:
    """One probe; returns 1 where it fails."""
    options = options_of()
    # The clock of the machine's uptime, which no correction of the time moves.
    why = probe(options.server, options.state, options.stalled_seconds, time.monotonic())
    if why:
        sys.stdout.write(f"{why}\n")
    return 1 if why else 0


if __name__ == "__main__":
    raise SystemExit(main())
