"""Pulumi.yaml declares every key, and what the engine makes of the declarations changes nothing.

The engine refuses a stack that lacks a declared key without a default, and fills in the others' defaults.
Source: pulumi, sdk/go/common/workspace/config.go (mergeConfig) and project.go (ValidateConfigValue).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from settings.load import KEYS, parse
from settings.names import stack_names
from settings.sections.section import NAMESPACE, SECRET_KEYS
from settings.stack_file import read

ROOT = Path(__file__).resolve().parents[2]
DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
OWN = {key: declared for key, declared in DECLARED.items() if ":" not in key}
STACKS = stack_names(ROOT)
TYPES = {"string": str, "array": list, "object": dict}


def as_the_engine_would(stack: str) -> dict[str, str]:
    config = dict(read(ROOT, stack).config)
    for name, declared in OWN.items():
        key = f"{NAMESPACE}:{name}"
        if key not in config:
            assert "default" in declared, f"stack {stack} lacks {name}, and the engine would refuse it"
            default = declared["default"]
            config[key] = default if isinstance(default, str) else json.dumps(default)
    return config


def test_every_key_but_the_optional_secrets_is_declared_and_described() -> None:
    assert set(OWN) == KEYS - SECRET_KEYS.keys()
    assert all(declared["description"] for declared in OWN.values())


def test_the_engine_makes_no_kubernetes_provider_of_the_ambient_kubeconfig() -> None:
    """`value:` of a key of another namespace reaches every stack that does not set it itself."""
    assert {key: declared["value"] for key, declared in DECLARED.items() if key not in OWN} == {
        "pulumi:disable-default-providers": ["kubernetes"],
        "pulumi:tags": {"workload": "llm-inference", "runs-on": "gke-autopilot"},
    }
    for stack in STACKS:
        assert json.loads(read(ROOT, stack).config["pulumi:disable-default-providers"]) == ["kubernetes"]


@pytest.mark.parametrize("stack", STACKS)
def test_the_engines_defaults_change_nothing(stack: str) -> None:
    assert parse(stack, as_the_engine_would(stack)) == parse(stack, read(ROOT, stack).config)
    assert (
        parse(stack, as_the_engine_would(stack)).model_fields_set
        == parse(stack, read(ROOT, stack).config).model_fields_set
    )


@pytest.mark.parametrize("stack", STACKS)
def test_values_are_of_the_type_that_the_engine_checks(stack: str) -> None:
    for key, text in read(ROOT, stack).config.items():
        space, _, name = key.partition(":")
        if space == NAMESPACE:
            wanted = TYPES[OWN[name]["type"]]
            assert isinstance(text if wanted is str else json.loads(text), wanted), key
