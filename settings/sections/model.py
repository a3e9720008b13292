"""Section `model`: the model to serve."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like

Revision = Annotated[str, like(r"^[0-9a-f]{40}$", "a commit: 40 digits and letters a to f")]
"""A git commit: 40 hexadecimal digits."""


class Model(Section):
    """The model to serve, when it is not the profile's own."""

    id: Annotated[
        str,
        like(
            r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$",
            "OWNER/NAME of a Hugging Face repository",
        ),
    ]
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8"."""
    revision: Revision
    """Commit of that repository. A branch name would let the weights change under a running fleet."""
    size_gb: Annotated[float, Field(gt=0)]
    """Size of the repository's files in GB (10**9 bytes); sizes the weights volume and the load time."""
