"""Section `model`: the model to serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetPydanticSchema, ValidationInfo, WithJsonSchema
from pydantic_core import core_schema

from facts.models import ModelShape, from_config
from settings import strict_json
from settings.sections.section import Section, like

Revision = Annotated[str, like(r"^[0-9a-f]{40}$", "a commit: 40 digits and letters a to f")]
"""A git commit: 40 hexadecimal digits."""
Repository = Annotated[
    str,
    like(
        r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$",
        "OWNER/NAME of a Hugging Face repository",
    ),
]
SizeGb = Annotated[float, Field(gt=0)]


def _read(path: Any, info: ValidationInfo) -> ModelShape:
    """The shape that this config.json has. Raises ValueError for a file that is none or of a model that is not known."""
    if not isinstance(path, str):
        raise ValueError("the path of the model's config.json, from the stack file's folder")
    try:
        content = strict_json.read(Path(path))
    except OSError as error:
        raise ValueError(f"a file that can be read; this one: {error.strerror}") from None
    except ValueError:
        raise ValueError("a file with JSON in it, the config.json of the model's repository") from None
    if not isinstance(content, dict):
        raise ValueError("a file with one JSON object, the config.json of the model's repository")
    try:
        return from_config(content, info.data.get("id", "the model"))
    except ValueError as error:
        raise ValueError(f"a config.json of a shape that is known; {error}") from None


Config = Annotated[
    ModelShape,
    # Not PlainValidator, which builds a schema of every field of ModelShape at each start.
    GetPydanticSchema(lambda _source, _handler: core_schema.with_info_plain_validator_function(_read)),
    WithJsonSchema({"type": "string"}),
]
"""A model's shape by the path of its config.json."""


class Model(Section):
    """One model, pinned."""

    id: Repository
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8"."""
    revision: Revision
    """Commit of that repository. A branch name would let the weights change under a running fleet."""
    size_gb: SizeGb
    """Size of the repository's files in GB (10**9 bytes); sizes the weights volume and the load time."""


class ChosenModel(Section):
    """The model to serve, when it is not the profile's own. docs/models.md is the guide; `fleet models` lists the catalogue."""

    id: Repository
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8". Enough by itself where the catalogue has a revision of it."""
    revision: Revision | None = None
    """Commit of that repository. A branch name would let the weights change under a running fleet. Default: the catalogue's."""
    size_gb: SizeGb | None = None
    """Size of the repository's files in GB (10**9 bytes); sizes the weights volume and the load time. Default: the catalogue's."""
    config: Config | None = None
    """Path of the model's config.json, from the stack file's folder. Default: the catalogue's shape."""
