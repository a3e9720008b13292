"""The base of every section of a stack file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from facts.finding import raise_refused
from facts.names import KEDA_NAMESPACE
from facts.secrets_in_text import looks_drawn

PATTERN_TEXTS: Final[dict[str, str]] = {}
"""Description of each text pattern; errors show it instead of the pattern."""
NAMESPACE = "vllm-fleet"
"""The configuration namespace, which is the project's name in Pulumi.yaml: keys read `vllm-fleet:capacity`."""


class Section(BaseModel):
    """A section of the stack file: frozen, camelCase keys, no unknown keys, no type conversion ("12" is not 12)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,  # a value may be a secret; `explain` decides what to show
    )

    if not TYPE_CHECKING:  # pydantic's plugin gives each section its own signature

        def __init__(self, /, **values: Any) -> None:
            """A section written in a program. Raises ValueError with a finding for each wrong value; `model_validate` raises pydantic's."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                from settings.explain import explain

                raise_refused(explain(error, type(self), type(self).__name__))

        # Sections inside of one are made by pydantic itself, as if this method were not here.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def written(cls, values: Any) -> Self:
        """A section written in a stack file, whose keys are camelCase alone. Raises pydantic.ValidationError."""
        return cls.model_validate(values, by_alias=True, by_name=False)


SECRET_KEYS = {
    "hfToken": "hasHfToken",
    "apiKey": "hasApiKey",
    "slackToken": "hasSlackToken",
    "pagerdutyKey": "hasPagerdutyKey",
}
"""Top-level secret keys, and the field of `Settings` that tells whether each is set. Settings never contain the values."""


def key(path: str) -> str:
    """Full key of a setting in the stack file: `vllm-fleet:server.replicas`."""
    return f"{NAMESPACE}:{path}"


def tuples(value: Any) -> Any:
    """Convert lists to tuples, because sections are frozen and strict."""
    if isinstance(value, list):
        return tuple(tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return value


def like(pattern: str, description: str) -> Any:
    """A text pattern with its description, for `Annotated[str, ...]`."""
    PATTERN_TEXTS[pattern] = description
    return Field(pattern=pattern)


def _not_of_the_cluster(text: str) -> str:
    """The text. Raises ValueError for a namespace of Kubernetes or GKE."""
    if text in ("default", KEDA_NAMESPACE) or text.startswith(("kube-", "gke-", "gmp-")):
        raise ValueError("any namespace except default, kube-*, gke-*, gmp-* and keda, which belong to the cluster")
    return text


Name = Annotated[
    str,
    like(
        r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
        "1 to 63 lowercase letters, digits and dashes, starting with a letter and not ending with a dash",
    ),
]
"""A name for Compute Engine resources and Kubernetes labels. Source: RFC 1035."""
ShortName = Annotated[
    str,
    like(
        r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$",
        "1 to 40 lowercase letters, digits and dashes, starting with a letter and not ending with a dash",
    ),
]
"""A name that leaves room for a suffix."""
Namespace = Annotated[Name, AfterValidator(_not_of_the_cluster)]
"""A Kubernetes namespace, except the cluster's system namespaces."""
ProjectId = Annotated[
    str,
    like(
        r"^[a-z][-a-z0-9]{4,28}[a-z0-9]$",
        "6 to 30 lowercase letters, digits and dashes, starting with a letter and not ending with a dash",
    ),
]
"""A Google Cloud project. Source: Resource Manager, project ids. A domain prefix (`example.com:`) is not allowed, because selectors
need a valid label value."""
_LABEL_OF_A_NAME = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST_PATTERN = rf"{_LABEL_OF_A_NAME}(\.{_LABEL_OF_A_NAME}){{0,10}}"
"""Source: RFC 1123, section 2.1, and RFC 1035, section 2.3.4."""
IMAGE_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
"""One part of a repository's name. Source: OCI Distribution Specification, "Pulling manifests"."""
Moment = Annotated[
    str,
    like(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", 'a time in UTC, such as "2027-01-04T06:00:00Z"'),
]
"""RFC 3339 in UTC. Google's APIs return UTC, so any other form would show a permanent difference."""


def _is_a_name(text: str) -> str:
    """The text. Raises ValueError if it looks like the secret itself."""
    if looks_drawn(text):
        raise ValueError("the name of a Secret Manager secret; this looks like the secret itself")
    return text


SecretName = Annotated[
    str, like(r"^[A-Za-z0-9_-]{1,255}$", "1 to 255 letters, digits, dashes and underscores"), AfterValidator(_is_a_name)
]
"""Name of a Secret Manager secret of the stack's project."""


class SecretVersion(Section):
    """A Secret Manager secret of the stack's project, optionally with a version."""

    name: SecretName
    """Name of the secret."""
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Version that every pod reads, e.g. 3; changing it restarts these pods. Default: the latest version when a pod starts."""


def _whole(given: Any) -> Any:
    if isinstance(given, int | float | tuple):
        raise ValueError("the name of a Secret Manager secret in quotes, or {name, version}")
    return {"name": given} if isinstance(given, str) else given


SecretReference = Annotated[SecretVersion, BeforeValidator(_whole, json_schema_input_type=SecretName | SecretVersion)]
"""A secret's name, or `{name, version}`."""
