"""Programs that run inside the pods: standard library only, passed to the image's own Python as text."""

from __future__ import annotations

from pathlib import Path


def source(name: str) -> str:
    """The text of one of these programs, e.g. `source("with_api_key")`."""
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
