"""Section `model`: the model to serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetPydanticSchema, ValidationInfo, WithJsonSchema
from pydantic_core import core_schema

from facts import strict_json
from facts.model_config import MOST_BYTES, ModelShape, from_config
from settings.sections.section import Section, like

Revision = Annotated[str, like(r"^[0-9a-f]{40}$", "a commit id of 40 hexadecimal digits in lowercase")]
"""A git commit: 40 hexadecimal digits."""


def _is_of_the_hub(id_: str) -> str:
    """The id. Raises ValueError for one that the hub refuses. Source: huggingface_hub 1.5, utils/_validators.py, validate_repo_id."""
    if "--" in id_ or ".." in id_ or id_.endswith(".git"):
        raise ValueError("OWNER/NAME of a Hugging Face repository, without -- and .., and not ending with .git")
    return id_


Repository = Annotated[
    str,
    like(
        r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?/[A-Za-z0-9_]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?$",
        "OWNER/NAME of a Hugging Face repository",
    ),
    AfterValidator(_is_of_the_hub),
]
SizeGb = Annotated[float, Field(gt=0, le=70_000)]
"""At most what the largest Hyperdisk ML holds, 64 TiB."""
KvBytesPerToken = Annotated[int, Field(gt=0, le=2**24)]
"""Assumed: at least ten times that of any public model; Llama 3.1 405B has 504 KiB with 16 bits."""


def _read(path: Any, info: ValidationInfo) -> ModelShape:
    """The model shape in a config.json. Raises ValueError for an invalid file or an unknown architecture."""
    if isinstance(path, ModelShape):
        return path
    if not isinstance(path, str):
        raise ValueError("the path of the model's config.json, relative to the stack file")
    try:
        content = strict_json.read(Path(path), MOST_BYTES)
    except OSError as error:
        raise ValueError(f"a readable file ({error.strerror})") from None
    except ValueError:
        raise ValueError("a JSON file: the config.json of the model's repository") from None
    if not isinstance(content, dict):
        raise ValueError("a file with one JSON object: the config.json of the model's repository")
    try:
        return from_config(content, info.data.get("id", "the model"))
    except ValueError as error:
        raise ValueError(f"a config.json of a known architecture, or kvBytesPerToken instead; {error}") from None


Config = Annotated[
    ModelShape,
    # Not PlainValidator, which builds a schema of every field of ModelShape at each start.
    GetPydanticSchema(lambda _source, _handler: core_schema.with_info_plain_validator_function(_read)),
    WithJsonSchema({"type": "string"}),
]
"""A model's shape, given by the path of its config.json."""


MOST_ADAPTERS = 64
"""Assumed: one slot takes hundreds of MiB on each GPU."""
AdapterRank = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
"""Source: MaxLoRARanks of vllm/config/lora.py, the same in 0.18.1 and 0.33.0."""


class Adapter(Section):
    """A LoRA adapter of the model, pinned."""

    name: Annotated[
        str,
        like(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", "1 to 63 letters, digits and . _ -, the first a letter or digit"),
    ]
    """Its name in requests, as `model`: different from the model's and from the other adapters'."""
    id: Repository
    """Hugging Face repository with adapter_config.json and the adapter's weights."""
    revision: Revision
    """Commit id in that repository."""
    rank: AdapterRank
    """Its rank: `r` in adapter_config.json, rounded up to a size that vLLM has slots for."""

    @property
    def home(self) -> str:
        """The folder of its download in the weights' volume. Named by the adapter: two may be revisions of one repository."""
        return f"adapters/{self.name}"

    @property
    def folder(self) -> str:
        """The folder of its files in the weights' volume."""
        return f"{self.home}/{self.id}"


Adapters = Annotated[tuple[Adapter, ...], Field(max_length=MOST_ADAPTERS)]


class Model(Section):
    """One model, pinned."""

    id: Repository
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8"."""
    revision: Revision
    """Commit id in that repository. A branch name is not allowed, because the weights could change under a running fleet."""
    size_gb: SizeGb
    """Size of what vLLM reads of the repository, in GB (10**9 bytes), for the weights volume and the load time."""
    adapters: Adapters = ()
    """LoRA adapters beside it."""

    def adapter_paths(self, mount: str) -> dict[str, str]:
        """Folders of the adapters by name, below the folder in which pods mount the weights."""
        return {adapter.name: f"{mount}/{adapter.folder}" for adapter in self.adapters}


class ChosenModel(Section):
    """The model to serve instead of the profile's. Guide: docs/models.md; `fleet models` lists the catalog."""

    id: Repository
    """Hugging Face repository, e.g. "Qwen/Qwen3.5-27B-FP8". Sufficient alone if the catalog has its revision."""
    revision: Revision | None = None
    """Commit id in that repository; a branch name is not allowed, because the weights could change under a running fleet. Default: the
    catalog's."""
    size_gb: SizeGb | None = None
    """Size of what vLLM reads of the repository, in GB (10**9 bytes), for the weights volume and the load time. Default: the catalog's."""
    config: Config | None = None
    """Path of the model's config.json, relative to the stack file. Default: the catalog's shape."""
    kv_bytes_per_token: KvBytesPerToken | None = None
    """Instead of `config` for a model whose architecture is not known here: bytes of one token in the cache of one GPU, with the stack's
    `tensorParallelSize` and `kvCacheDtype`. vLLM's log at startup has the available memory for the cache, and its size in tokens."""
    adapters: Adapters = ()
    """LoRA adapters that the servers serve beside the model, each under its own name. Guide: docs/own-model.md."""
