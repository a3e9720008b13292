"""Where models come from."""

from __future__ import annotations

from typing import Final

HUB: Final = "https://huggingface.co"


def file_url(repository: str, revision: str, name: str) -> str:
    """Address of one file of a repository. Source: huggingface_hub, constants.py, HUGGINGFACE_CO_URL_TEMPLATE."""
    return f"{HUB}/{repository}/resolve/{revision}/{name}"
