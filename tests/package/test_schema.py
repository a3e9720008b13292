"""The package's schema, and the YAML programs that are written against it."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, get_args

import pytest
import yaml

from facades import inputs
from facades.host import VERSION
from facades.schema import text
from settings.sections.capacity import AnyMode
from tests.inventory import ROOT

SCHEMA: dict[str, Any] = json.loads((ROOT / "package" / "schema.json").read_text(encoding="utf-8"))
RESOURCES: dict[str, Any] = SCHEMA["resources"]
PROGRAMS = {
    path: yaml.safe_load((ROOT / path / "Pulumi.yaml").read_text(encoding="utf-8"))
    for path in ("docs/examples/package-yaml", "docs/examples/template")
}
KINDS = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}


def test_the_schema_is_as_reviewed() -> None:
    assert text() == (ROOT / "package" / "schema.json").read_text(encoding="utf-8"), "run `make schema`, read the diff"


def test_the_package_has_the_programs_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == VERSION


def test_every_input_and_output_is_described() -> None:
    for resource in RESOURCES.values():
        for one in (*resource["inputProperties"].values(), *resource["properties"].values()):
            assert one["description"].endswith(".")


def test_an_input_means_the_same_in_every_component() -> None:
    kinds: dict[str, set[str]] = {}
    for resource in RESOURCES.values():
        for name, one in resource["inputProperties"].items():
            kinds.setdefault(name, set()).add(str({key: one.get(key) for key in ("type", "$ref", "plain")}))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_every_input_has_a_place_in_a_stack_file() -> None:
    names = {name for resource in RESOURCES.values() for name in resource["inputProperties"]}
    by_mode = {key for places in inputs.PLACES_BY_MODE.values() for key in places}
    placed = {inputs.camel_case(key) for key in (*inputs.PLACES, *by_mode, *inputs.SECRETS)}
    assert names - placed == {"weightsClaim", "imagePrefix"}  # of Kubernetes alone
    assert placed <= names


def test_the_modes_are_those_of_a_stack_file() -> None:
    modes = {get_args(one.model_fields["mode"].annotation)[0] for one in get_args(AnyMode)}
    assert {one.value for one in inputs.CapacityMode} == modes


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_yaml_program_fits_the_schema(path: str) -> None:
    program = PROGRAMS[path]
    ours = {name: one for name, one in program["resources"].items() if one["type"].startswith("vllm-fleet:")}
    assert ours
    for one in ours.values():
        resource = RESOURCES[one["type"].replace("vllm-fleet:", "vllm-fleet:index:")]
        given = one["properties"]
        assert given.keys() <= resource["inputProperties"].keys()
        assert set(resource.get("requiredInputs", ())) <= given.keys()
        for name, value in given.items():
            fits(value, resource["inputProperties"][name], program)
    for name, output in re.findall(r"\$\{(\w+)\.(\w+)\}", json.dumps(program)):
        if name in ours:
            assert output in RESOURCES[ours[name]["type"].replace("vllm-fleet:", "vllm-fleet:index:")]["properties"]
    assert list(program["packages"]) == [SCHEMA["name"]]


def fits(value: Any, kind: dict[str, Any], program: dict[str, Any]) -> None:
    """A value of its kind; a piece of configuration by the kind that the program declares; another's output where that is allowed."""
    found = re.fullmatch(r"\$\{(\w+)(\.\w+)?\}", value) if isinstance(value, str) else None
    if found and found[2]:
        assert "plain" not in kind
        return
    if found:
        assert program["config"][found[1]]["type"] == kind.get("type", "string")
        return
    if "$ref" in kind:
        members = SCHEMA["types"].get(kind["$ref"].removeprefix("#/types/"), {}).get("enum")
        assert not members or value in [one["value"] for one in members]
        return
    assert isinstance(value, KINDS[kind["type"]])
    for one in value if kind["type"] == "array" else ():
        fits(one, kind["items"], program)


def test_the_templates_questions_are_its_configuration() -> None:
    template = PROGRAMS["docs/examples/template"]
    asked, declared = template["template"]["config"], template["config"]
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(template["resources"])))
    assert asked.keys() == declared.keys() == used
    assert all(one["description"] for one in asked.values())
    assert (template["name"], template["description"]) == ("${PROJECT}", "${DESCRIPTION}")
