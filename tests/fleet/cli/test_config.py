"""`fleet config`: the schema that editors follow, and the check that `pulumi up` repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from settings.load import KEYS
from settings.schema import SCHEMA_FILE, schema_text, stack_file_schema
from tests.fleet.cli.command import ROOT, SMALL_STACK, fleet, project


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return stack_file_schema()


def valid(schema: dict[str, Any], text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(yaml.safe_load(text)))


def test_the_committed_schema_is_current() -> None:
    assert (ROOT / SCHEMA_FILE).read_text() == schema_text(), "run: make schema"
    assert fleet("config", "schema").stdout == schema_text()


@pytest.mark.parametrize("file", sorted(path.name for path in ROOT.glob("Pulumi.*.yaml")))
def test_every_stack_file_follows_the_schema_and_names_it(schema: dict[str, Any], file: str) -> None:
    text = (ROOT / file).read_text()
    assert valid(schema, text)
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")


def test_the_schema_is_one_and_knows_every_key(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    known = schema["properties"]["config"]["properties"]
    assert set(known) == {"gcp:project", "gcp:region", *(f"vllm-fleet:{key}" for key in KEYS)}


def test_every_setting_is_described(schema: dict[str, Any]) -> None:
    missing = [
        f"{name}.{key}"
        for name, section in schema["$defs"].items()
        for key, field in section["properties"].items()
        if not field.get("description") and key != "mode"
    ]
    assert missing == []


@pytest.mark.parametrize(
    "wrong",
    [
        "  vllm-fleet:sever: {}\n",
        '  vllm-fleet:monitoring: {intervalSeconds: "15"}\n',
        "  vllm-fleet:monitoring: {intervalSeconds: 1}\n",
        "  vllm-fleet:monitoring: {interval_seconds: 15}\n",
        "  vllm-fleet:hfToken: plain\n",
        "  vllm-fleet:gateway: {gatewayClass: gke-l7-gxlb}\n",
    ],
)
def test_an_editor_sees_what_is_wrong(schema: dict[str, Any], wrong: str) -> None:
    assert valid(schema, SMALL_STACK)
    assert not valid(schema, SMALL_STACK + wrong)


def test_an_editor_sees_a_wrong_engine_setting_and_a_wrong_profile(schema: dict[str, Any]) -> None:
    def server(given: str) -> str:
        return SMALL_STACK.replace("{profile: serve-chat, replicas: 1}", given)

    assert valid(schema, server("{profile: tuned, engine: {maxModelLen: 8192}}"))
    assert not valid(schema, server("{profile: fast}"))
    assert not valid(schema, server("{engine: {maxModelLength: 8192}}"))


def test_other_providers_keys_are_theirs_to_check(schema: dict[str, Any]) -> None:
    assert valid(
        schema, SMALL_STACK + '  pulumi:disable-default-providers: ["kubernetes"]\n  gcp:zone: europe-west4-b\n'
    )


def test_a_clean_stack_exits_with_0(tmp_path: Path) -> None:
    done = fleet("config", "check", "--stack", "blue", cwd=project(tmp_path, blue=SMALL_STACK))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Pulumi.blue.yaml" in done.stdout
    assert "0 findings" in done.stdout


def test_the_placeholder_project_is_refused() -> None:
    done = fleet("config", "check", "--stack", "dev")
    assert done.returncode == 2
    assert "pulumi config set gcp:project MY-PROJECT --stack dev" in done.stderr


def test_a_finding_exits_with_1(tmp_path: Path) -> None:
    text = SMALL_STACK.replace("replicas: 1}", "replicas: 1, engine: {maxNumSeqs: 8000}}")
    done = fleet("config", "check", "--stack", "blue", cwd=project(tmp_path, blue=text))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "vllm-fleet:server.engine.maxNumSeqs" in done.stdout
    assert "1 finding " in done.stdout


def test_what_a_profile_repeats_on_purpose_is_shown_and_does_not_count(tmp_path: Path) -> None:
    text = SMALL_STACK.replace("serve-chat", "record")
    done = fleet("config", "check", "--stack", "blue", cwd=project(tmp_path, blue=text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "enablePrefixCaching" in done.stdout
    assert "shown for information" in done.stdout


def test_a_refused_lesson_exits_with_2_and_its_figure(tmp_path: Path) -> None:
    text = SMALL_STACK.replace("replicas: 1}", "replicas: 1, engine: {dataParallelSize: 1, tensorParallelSize: 8}}")
    done = fleet("config", "check", "--stack", "blue", cwd=project(tmp_path, blue=text))
    assert done.returncode == 2
    assert "22,300" in done.stderr


def test_the_schema_is_json(schema: dict[str, Any]) -> None:
    assert json.loads(schema_text()) == schema
