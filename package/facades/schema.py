"""Prints package/schema.json: `make schema` writes it."""

from __future__ import annotations

import json
import sys

from facades.host import Host


def text() -> str:
    """The schema that the package answers with, for a person to review."""
    return json.dumps(json.loads(Host().schema or ""), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
