"""The claims ledger's entry of a measurement, as `fleet bench record` prints it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from facts.texts import plural
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Asked
from fleet.bench.recomputed import digest_of_all
from fleet.bench.record import as_yaml, entry_of
from fleet.bench.report.shown import Shown


def entry(found: Shown, source: Path) -> tuple[str | None, str]:
    """The entry of the shown load, or None where it cannot be recorded, and a sentence about it."""
    asked = found.measurement.asked
    if asked is None:
        return None, "`run.json` is missing, so the measured stack is unknown and nothing can be recorded."
    id_, title = suggested(asked)
    point = found.point.point if len(found.measurement.points) > 1 else None
    try:
        recorded = entry_of(found.measurement, results=digest_of_all(source), id_=id_, title=title, point=point)
    except BenchmarkError as error:
        return None, f"This measurement cannot be recorded: {error}."
    return as_yaml(
        recorded
    ), f"`{command(source, id_, title, point)}` prints this entry; id and title are free to choose."


def suggested(asked: Asked) -> tuple[str, str]:
    """A default id and title: the stack, its nodes and the day."""
    nodes = asked.shape.replicas
    stack = re.sub(r"[^a-z0-9]+", "-", asked.stack.lower()).strip("-") or "stack"
    day = found[0] if (found := re.match(r"\d{4}-\d{2}-\d{2}", asked.created)) else ""
    named = f"{stack}-{nodes}-{'node' if nodes == 1 else 'nodes'}{f'-{day}' if day else ''}"
    return named, " ".join(f"{asked.stack}, {plural(nodes, 'node')}, vLLM {asked.shape.engine_version}".split())


def command(source: Path, id_: str, title: str, point: int | None) -> str:
    """Command that prints the entry."""
    of_sweep = "" if point is None else f" --point {point}"
    return f"fleet bench record {shlex.quote(str(source))} --id {id_} --title {shlex.quote(title)}{of_sweep}"
