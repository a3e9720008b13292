"""The JSON Schema of stack files, made from the settings' own types and docstrings: what an editor shows and checks.

The committed copy is settings/stack.schema.json; `fleet config schema` prints this one, and a test holds them equal.
The schema knows each key by itself. What keys mean together is checked by `fleet config check`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from settings.load import KEYS
from settings.names import ESC_OFFLINE
from settings.profiles import NAMES
from settings.sections.docstrings import field_docs
from settings.sections.engine import Engine
from settings.sections.section import NAMESPACE, SECRET_KEYS, Section
from settings.stack import Settings

SCHEMA_FILE = "settings/stack.schema.json"
"""Where the committed copy is, from the project's root; the stack files' first line points there."""

_SECRETS = {
    "hfToken": "Hugging Face token, for a model that is not public. Write it with `pulumi config set --secret`.",
    "apiKey": "API key that vLLM asks for on /v1. Write it with `pulumi config set --secret`.",
    "slackToken": "Token of Slack, for alerts. Write it with `pulumi config set --secret`.",
    "pagerdutyKey": "Integration key of PagerDuty, for alerts. Write it with `pulumi config set --secret`.",
    "webhookPassword": "Password of the webhook that alerts go to. Write it with `pulumi config set --secret`.",
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
    definitions["Canary"]["properties"]["profile"]["anyOf"][0]["enum"] = list(NAMES)
    for section in ("Server", "Canary"):
        fields = definitions[section]["properties"]
        fields["engine"] = {"$ref": "#/$defs/Engine", "description": fields["engine"]["description"]}
    fields = settings["properties"]
    # OpenAPI's word: strict JSON Schema readers stumble over it, and `oneOf` says the same.
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
                # Keys of Pulumi and its providers, such as pulumi:disable-default-providers, are theirs to check.
                "patternProperties": {f"^(?!{NAMESPACE}:)[A-Za-z][A-Za-z0-9_-]*:.+$": {}},
            },
            "environment": _environment(),
            "secretsprovider": {"type": "string", "description": "What encrypts this stack's secrets."},
            "encryptedkey": {"type": "string"},
            "encryptionsalt": {"type": "string"},
        },
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as the committed file has it."""
    return json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"


def _sections(base: type[Section]) -> Iterator[type[Section]]:
    for model in base.__subclasses__():
        yield model
        yield from _sections(model)


def _document(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Put the fields' docstrings in, and take out titles that only repeat the names."""
    schema.pop("title", None)
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        described = schema["properties"].get(field.alias or name)
        if described is None:
            continue
        described.pop("title", None)
        if name in docs:
            described["description"] = docs[name]
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())


def _environment() -> dict[str, Any]:
    """The forms that Pulumi reads. Source: pulumi, sdk/go/common/workspace/project.go; pulumi/esc, ast/environment.go."""
    name = {"type": "string", "minLength": 1}
    merge = {"type": "object", "additionalProperties": False, "properties": {"merge": {"type": "boolean"}}}
    imported = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": merge}
    return {
        "description": "Pulumi ESC environments: names, or a definition. They are not opened offline; "
        f"Pulumi.<stack>{ESC_OFFLINE}.yaml stands in for what they set.",
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
