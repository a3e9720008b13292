"""`fleet config`: the schema that editors follow, and the check that `pulumi up` repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from facts.advisories import of_release
from facts.names import SCHEMA_FILE, stack_names
from settings.load import KEYS
from settings.schema import schema_text, stack_file_schema
from tests.fleet.cli.command import ROOT, SMALL_STACK, fleet, project
from tests.support.rows import each_row


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return stack_file_schema()


def valid(schema: dict[str, Any], text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(yaml.safe_load(text)))


def test_the_committed_schema_is_current() -> None:
    assert (ROOT / SCHEMA_FILE).read_text() == schema_text(), "run: make schema"
    assert fleet("config", "schema").stdout == schema_text()


@pytest.mark.parametrize("file", [f"Pulumi.{stack}.yaml" for stack in stack_names(ROOT)])
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


@each_row(
    ("old", "new", "accepted"),
    [
        ("", "", True),
        ("", "  vllm-fleet:sever: {}\n", False),
        ("", '  vllm-fleet:monitoring: {intervalSeconds: "15"}\n', False),
        ("", "  vllm-fleet:monitoring: {intervalSeconds: 1}\n", False),
        ("", "  vllm-fleet:monitoring: {interval_seconds: 15}\n", False),
        ("", "  vllm-fleet:hfToken: plain\n", False),
        ("", "  vllm-fleet:gateway: {gatewayClass: gke-l7-gxlb}\n", False),
        ("{profile: serve-chat, replicas: 1}", "{profile: tuned, engine: {maxModelLen: 8192}}", True),
        ("{profile: serve-chat, replicas: 1}", "{profile: fast}", False),
        ("{profile: serve-chat, replicas: 1}", "{engine: {maxModelLength: 8192}}", False),
        # Environments have Pulumi's own forms.
        ("", "environment: [gcp/prod]\n", True),
        ("", "environment: {imports: [gcp/prod, {team/fleet: {merge: false}}], values: {pulumiConfig: {gcp:region: a}}}\n", True),
        ("", "environment: gcp/prod\n", False),
        ("", "environment: {import: [gcp/prod]}\n", False),
        # Other providers' keys are theirs to check.
        ("", '  pulumi:disable-default-providers: ["kubernetes"]\n  gcp:zone: europe-west4-b\n', True),
    ],
)  # fmt: skip
def test_an_editor_sees_what_is_wrong(schema: dict[str, Any], old: str, new: str, accepted: bool) -> None:
    assert valid(schema, SMALL_STACK.replace(old, new) if old else SMALL_STACK + new) is accepted


def test_a_check_with_environments_says_what_it_does_not_know(tmp_path: Path) -> None:
    zones = '  vllm-fleet:zones: ["europe-west4-b"]\n'
    folder = project(tmp_path, blue=SMALL_STACK.replace(zones, "") + "environment: [gcp/prod]\n")
    told = fleet("check", "--stack", "blue", cwd=folder)
    assert told.returncode == 2
    for named in ("vllm-fleet:zones", "gcp/prod", "Pulumi.blue.esc-offline.yaml"):
        assert named in told.stderr
    (folder / "Pulumi.blue.esc-offline.yaml").write_text(zones.strip() + "\n")
    stood_in = fleet("check", "--stack", "blue", cwd=folder)
    assert stood_in.returncode == 0, stood_in.stderr
    assert "Pulumi.blue.esc-offline.yaml" in stood_in.stdout


def test_the_placeholder_project_is_refused() -> None:
    done = fleet("check", "--stack", "dev")
    assert done.returncode == 2
    assert "pulumi config set gcp:project MY-PROJECT" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "code", "severity", "named"),
    [
        ("replicas: 1}", "replicas: 1, engine: {gpuMemoryUtilization: 0.95}}", 1, "warning", "gpuMemoryUtilization"),
        ("replicas: 1}", "replicas: 1, engine: {dataParallelSize: 1, tensorParallelSize: 8}}", 2, "error", "22,300"),
        ("replicas: 1}", "replica: 1}", 2, "error", "replica"),
        # What a profile repeats on purpose is shown and does not count.
        ("serve-chat", "record", 0, "deliberate", "enablePrefixCaching"),
    ],
    ids=["a finding", "a refused lesson with its figure", "a key that does not exist", "a profile's purpose"],
)
def test_findings_decide_the_exit_code_and_the_document_has_them_all(
    tmp_path: Path, old: str, new: str, code: int, severity: str, named: str
) -> None:
    folder = project(tmp_path, blue=SMALL_STACK.replace(old, new))
    done = fleet("check", "--stack", "blue", cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    assert named in (done.stderr if code == 2 else done.stdout)
    assert code == 2 or f"{code} finding" in done.stdout
    written = fleet("check", "--stack", "blue", "--format", "json", cwd=folder)
    document = json.loads(written.stdout)
    assert (written.returncode, document["version"], document["stack"]) == (code, 1, "blue")
    subjects = [one["subject"] for one in document["findings"] if one["severity"] == severity]
    assert subjects
    assert all(one.startswith("vllm-fleet:server.") for one in subjects)
    keys = {"id", "subject", "severity", "found", "allowed", "why", "write"}
    assert all(one.keys() == keys for one in document["findings"])


@pytest.mark.parametrize(("labels", "code"), [("", 1), ("  vllm-fleet:labels: {environment: production}\n", 2)])
def test_the_details_of_an_old_release_list_each_advisory_whether_or_not_it_is_refused(
    tmp_path: Path, labels: str, code: int
) -> None:
    old = SMALL_STACK.replace("replicas: 1}", "replicas: 1, engine: {version: 0.18.1}}") + labels
    folder = project(tmp_path, blue=old)
    short, whole = (
        fleet("check", "--stack", "blue", cwd=folder),
        fleet("check", "--stack", "blue", "--details", cwd=folder),
    )
    assert (short.returncode, whole.returncode) == (code, code), whole.stderr
    listed = {one.id for one in of_release((0, 18, 1)) if one.id in whole.stdout}
    assert {"CVE-2026-34756", "CVE-2026-93989", "CVE-2026-105922"} <= listed
    assert [id_ for id_ in listed if id_ in short.stdout + short.stderr] == (["CVE-2026-48746"] if labels else [])
    document = json.loads(fleet("check", "--stack", "blue", "--details", "--format", "json", cwd=folder).stdout)
    assert {one["id"] for one in document["advisories"]} == listed


@pytest.mark.parametrize(
    ("command", "place"),
    [("check", "server"), ("preview", "server"), ("check", "rollout")],
)
def test_a_wrong_flag_is_a_wrong_input_of_every_command(tmp_path: Path, command: str, place: str) -> None:
    wrong = {
        "--swap-space=4": "CPU memory",
        "--dtype=foo": "bfloat16",
        "--fully-sharded-loras=yes": "--no-fully-sharded-loras",
    }
    arguments = json.dumps(list(wrong))
    engine = f"engine: {{extraArgs: {arguments}}}"
    text = SMALL_STACK.replace("replicas: 1}", f"replicas: 1, {engine}}}")
    if place == "rollout":
        text = f"{SMALL_STACK}  vllm-fleet:rollout: {{{engine}}}\n"
    folder = project(tmp_path, blue=text)
    done = fleet(command, "--stack", "blue", cwd=folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for flag, named in wrong.items():
        assert f"vllm-fleet:{place}.engine.extraArgs: {flag}" in done.stderr
        assert named in done.stderr
