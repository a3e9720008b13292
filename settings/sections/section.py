"""The base of every section of a stack file."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from settings.names import KEDA_NAMESPACE
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


IN_WORDS: Final[dict[str, str]] = {}
"""What each pattern of a stack file's texts says: an error shows these words, and never the pattern."""


def like(pattern: str, words: str) -> Any:
    """A text's limit, and the same in words; for `Annotated[str, ...]`."""
    IN_WORDS[pattern] = words
    return Field(pattern=pattern)


def _not_of_the_cluster(text: str) -> str:
    """The text. Raises ValueError for a namespace of Kubernetes or GKE, whose pods and quotas this stack would meet."""
    if text in ("default", KEDA_NAMESPACE) or text.startswith(("kube-", "gke-", "gmp-")):
        raise ValueError("a namespace of its own: default, kube-*, gke-*, gmp-* and keda belong to the cluster")
    return text


Name = Annotated[
    str,
    like(
        r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
        "1 to 63 lower-case letters, digits and dashes, first a letter, last no dash",
    ),
]
"""A name as Compute Engine and a Kubernetes label take it. Source: RFC 1035."""
ShortName = Annotated[
    str,
    like(
        r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$",
        "1 to 40 lower-case letters, digits and dashes, first a letter, last no dash",
    ),
]
"""A name that others are made of: an ending fits behind it."""
Namespace = Annotated[Name, AfterValidator(_not_of_the_cluster)]
"""A Kubernetes namespace that is not the cluster's own."""
ProjectId = Annotated[
    str,
    like(
        r"^[a-z][-a-z0-9]{4,28}[a-z0-9]$",
        "6 to 30 lower-case letters, digits and dashes, first a letter, last no dash",
    ),
]
"""A Google Cloud project. Source: Resource Manager, project ids; `example.com:` before one is no label's value, which selectors need."""
Moment = Annotated[
    str,
    like(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", 'a moment in UTC, such as "2027-01-04T06:00:00Z"'
    ),
]
"""RFC 3339 in UTC. Google answers in UTC, so anything else would be a difference for ever."""


def _is_a_name(text: str) -> str:
    """The text. Raises ValueError for what is the secret itself, by the look of it."""
    if looks_drawn(text):
        raise ValueError("the name of a secret, and this looks like the secret itself: put it into Secret Manager")
    return text


SecretName = Annotated[
    str, like(r"^[A-Za-z0-9_-]{1,255}$", "1 to 255 letters, digits, dashes and underscores"), AfterValidator(_is_a_name)
]
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
