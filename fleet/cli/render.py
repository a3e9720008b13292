"""`fleet render`: every manifest of a stack as files."""

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
        help="Folder to write to; made if it is not there.",
        show_default=False,
    ),
]


def render(out: Out, stack: Stack = None, root: Root = None) -> int:
    """Write every Kubernetes object of a stack as YAML, numbered in dependency order, and the rest as JSON.

    What only the cloud can know (ids, addresses) is made up; secrets are placeholders.
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
