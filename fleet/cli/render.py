"""`fleet render`: a stack's manifests as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.exits import CLEAN, leave
from fleet.cli.options import Root, Stack

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        file_okay=False,
        help="Output folder; created if missing.",
        show_default=False,
    ),
]


def render(out: Out, stack: Stack = None, root: Root = None) -> int:
    """Write a stack's Kubernetes objects as YAML, numbered in dependency order, and its cloud resources as JSON.

    Cloud ids, addresses and secrets are placeholders.
    """
    from fleet.cli.project import find_root, require_stack

    folder = find_root(root)
    name = require_stack(folder, stack)
    from fleet.preview.record import quick_sdk

    quick_sdk.install()
    from fleet.preview.offline import open_stack, record_stack, write_manifests

    opened = open_stack(folder, name)
    files = write_manifests(record_stack(opened, "known"), out)
    sys.stdout.write(f"{len(files)} files in {out}\n")
    leave(CLEAN)
