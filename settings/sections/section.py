"""The base of every section of a stack file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from settings.rules.secrets_in_text import looks_drawn

NAMESPACE = "vllm-fleet"
"""The configuration namespace: the project's name in Pulumi.yaml, so keys read `vllm-fleet:capacity`."""


class Section(BaseModel):
    """A section of the stack file: frozen, camelCase keys, no unknown keys, no silent conversions ("12" is not 12)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,  # a value may be a secret; `explain` shows what may be shown
    )


SECRET_KEYS = {"hfToken": "hasHfToken", "apiKey": "hasApiKey"}
"""Top-level secret keys, and the field of `Settings` that says whether each is there; the values never enter it."""


def key(path: str) -> str:
    """The path of a setting as the stack file spells it: `vllm-fleet:server.replicas`."""
    return f"{NAMESPACE}:{path}"


def tuples(value: Any) -> Any:
    """Lists as tuples: the sections are frozen and strict, and JSON and YAML have no tuple."""
    if isinstance(value, list):
        return tuple(tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return value


def _is_a_name(text: str) -> str:
    """The text. Raises ValueError for what is the secret itself, by the look of it."""
    if looks_drawn(text):
        raise ValueError("the name of a secret, and this looks like the secret itself: put it into Secret Manager")
    return text


SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,255}$"), AfterValidator(_is_a_name)]
"""Name of a Secret Manager secret of the stack's project."""


class SecretVersion(Section):
    """A Secret Manager secret of the stack's project, as a whole or one version of it."""

    name: SecretName
    """Name of the secret."""
    version: Annotated[int, Field(ge=1)] | None = None
    """Version that every pod reads, e.g. 3; another one restarts the pods that read it. Default: the newest when a pod starts."""


def _whole(given: Any) -> Any:
    if isinstance(given, int | float | tuple):
        raise ValueError("the name of a Secret Manager secret, in quotes, or {name, version}")
    return {"name": given} if isinstance(given, str) else given


SecretReference = Annotated[SecretVersion, BeforeValidator(_whole, json_schema_input_type=SecretName | SecretVersion)]
"""A secret by its name alone, or `{name, version}`."""
