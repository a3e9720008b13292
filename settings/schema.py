"""The JSON Schema of stack files, generated from the settings' types and docstrings, for editors.

The committed copy is settings/stack.schema.json; `fleet config schema` prints it, and a test compares them. The schema checks each key
alone; `fleet check` checks keys against each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from facts.names import ESC_OFFLINE
from settings.checks.empty import FLEX_START
from settings.load import KEYS
from settings.profiles import NAMES
from settings.sections.docstrings import field_docs
from settings.sections.engine import Engine
from settings.sections.section import NAMESPACE, SECRET_KEYS, Section
from settings.stack import Settings

_SECRETS = {
    "hfToken": "Hugging Face token, for a model that is not public. Set it with `pulumi config set --secret`.",
    "apiKey": "API key that vLLM requires under /v1. Set it with `pulumi config set --secret`.",
    "slackToken": "Slack token, for alerts. Set it with `pulumi config set --secret`.",
    "pagerdutyKey": "PagerDuty integration key, for alerts. Set it with `pulumi config set --secret`.",
}
_PROVIDER_KEYS = {"project": "gcp:project", "region": "gcp:region"}


def stack_file_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a whole `Pulumi.<stack>.yaml`."""
    _, generated = models_json_schema([(Settings, "validation"), (Engine, "validation")], by_alias=True)
    definitions: dict[str, Any] = generated["$defs"]
    for model in _sections(Section):
        if model.__name__ in definitions:
            _document(definitions[model.__name__], model)
    settings = definitions.pop("Settings")
    definitions["Server"]["properties"]["profile"]["enum"] = list(NAMES)
    for section in ("Server", "Rollout"):
        fields = definitions[section]["properties"]
        fields["engine"] = {"$ref": "#/$defs/Engine", "description": fields["engine"]["description"]}
    # The default follows from the model.
    definitions["Server"]["properties"]["name"].pop("default")
    fields = settings["properties"]
    fields["server"]["default"].pop("name")
    # An OpenAPI keyword that strict JSON Schema validators reject; `oneOf` is sufficient.
    fields["capacity"].pop("discriminator")
    config = {key: fields[name] for name, key in _PROVIDER_KEYS.items()}
    for name in sorted(KEYS):
        config[f"{NAMESPACE}:{name}"] = _secret(_SECRETS[name]) if name in SECRET_KEYS else fields[name]
    required = {_PROVIDER_KEYS.get(name, f"{NAMESPACE}:{name}") for name in settings["required"]} & config.keys()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vllm-fleet stack",
        "description": "One stack of a vLLM fleet: Pulumi.<stack>.yaml.",
        "type": "object",
        "required": ["config"],
        "additionalProperties": False,
        "properties": {
            "config": {
                "type": "object",
                "required": sorted(required),
                "additionalProperties": False,
                "properties": config,
                # Keys of Pulumi and its providers, such as pulumi:disable-default-providers.
                "patternProperties": {f"^(?!{NAMESPACE}:)[A-Za-z][A-Za-z0-9_-]*:.+$": {}},
            },
            "environment": _environment(),
            "secretsprovider": {"type": "string", "description": "Provider that encrypts this stack's secrets."},
            "encryptedkey": {"type": "string"},
            "encryptionsalt": {"type": "string"},
        },
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as in the committed file."""
    return json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"


def _sections(base: type[Section]) -> Iterator[type[Section]]:
    for model in base.__subclasses__():
        yield model
        yield from _sections(model)


def _document(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the fields' docstrings, and remove titles, which only repeat the names."""
    schema.pop("title", None)
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        described = schema["properties"].get(field.alias or name)
        if described is None:
            continue
        described.pop("title", None)
        if model is not Engine and field.alias != FLEX_START:
            _without_null(described)
        if name in docs:
            described["description"] = docs[name]
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())


def _without_null(described: dict[str, Any]) -> None:
    """Drop the null that stands for a key that is left out: written, it is refused."""
    choices = [choice for choice in described.get("anyOf", ()) if choice != {"type": "null"}]
    if choices and len(choices) < len(described["anyOf"]):
        described.pop("default", None)
        described.update(choices[0] if len(choices) == 1 else {"anyOf": choices})
        if len(choices) == 1:
            described.pop("anyOf")


def _environment() -> dict[str, Any]:
    """The forms that Pulumi accepts. Source: pulumi, sdk/go/common/workspace/project.go; pulumi/esc, ast/environment.go."""
    name = {"type": "string", "minLength": 1}
    merge = {"type": "object", "additionalProperties": False, "properties": {"merge": {"type": "boolean"}}}
    imported = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": merge}
    return {
        "description": "Pulumi ESC environments: names, or a definition. They are not opened offline; "
        f"Pulumi.<stack>{ESC_OFFLINE}.yaml replaces their values.",
        "oneOf": [
            {"type": "array", "items": name},
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "description": {"type": "string"},
                    "imports": {"type": "array", "items": {"oneOf": [name, imported]}},
                    "values": {"type": "object"},
                },
            },
        ],
    }


def _secret(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "required": ["secure"],
        "additionalProperties": False,
        "properties": {"secure": {"type": "string"}},
    }
