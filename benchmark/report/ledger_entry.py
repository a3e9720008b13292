"""The claims ledger's entry of a measurement, as `fleet bench record` would write it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from benchmark.errors import BenchmarkError
from benchmark.folder import Asked
from benchmark.measurement import Judged


def entry(judged: Judged, source: Path) -> tuple[str | None, str]:
    """The entry's text, or None where there can be none, and a sentence about it."""
    from benchmark.record import entry_text

    asked = judged.measurement.asked
    if asked is None:
        return None, "Without `run.json` there is no stack that an entry could be of."
    id_, title = suggested(asked)
    try:
        text = entry_text(judged, id_, title)
    except BenchmarkError as error:
        return None, f"This measurement cannot be recorded: {error}"
    return text, f"`{command(source, id_, title)}` writes this entry; choose its id and title:"


def suggested(asked: Asked) -> tuple[str, str]:
    """An id and a title to begin with: stack, nodes and the measurement's day."""
    nodes = asked.shape.replicas
    stack = re.sub(r"[^a-z0-9]+", "-", asked.stack.lower()).strip("-") or "stack"
    return f"{stack}-{nodes}-nodes", f"{asked.stack}, {nodes} {'node' if nodes == 1 else 'nodes'}, {asked.profile}"


def command(source: Path, id_: str, title: str) -> str:
    """What writes the entry."""
    return f"fleet bench record {shlex.quote(str(source))} --id {id_} --title {shlex.quote(title)}"
