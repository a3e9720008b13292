"""`fleet bench releases`: the measurement that compares vLLM's releases on one node, as steps with time and price."""

from __future__ import annotations

import shlex

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack


@with_fields()
def releases(of: OneStack, format_: Format = "text") -> int:
    """Print how to measure vLLM 0.18.0, 0.18.1 and 0.33.0 on one node of a stack: steps, time and price. Starts nothing.

    Every release gets the same prompts, three times, and answers are compared from files. Refused for production, and for another GPU or
    model: the session replaces the servers, and the article's record is of one model on B200.
    """
    from fleet.bench.releases import outline, session

    folder, name = of.find()
    root = "" if of.root is None else f" --root {shlex.quote(str(of.root))}"
    show(outline(session(folder, name, root), root), format_)
    return CLEAN
