"""The installed package. It carries the repository's packages, so that none of their names is taken in site-packages."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run `fleet`."""
    carried = Path(__file__).with_name("repository")
    if carried.is_dir():  # in a checkout the packages are on the path already
        sys.path.insert(0, str(carried))
    from fleet.cli.main import main as run

    return run()
