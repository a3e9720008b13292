"""`fleet plan` as a user runs it: the guide's examples, JSON, a written stack, and goals that cannot be."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from fleet.cli.app import app_with
from fleet.preview.offline import open_stack
from tests.fleet.cli.command import COMMAND, ROOT, fleet, project
from tests.fleet.cli.test_start_up import loaded_by
from tests.processor import unit_seconds
from tests.support.rows import each_row


@cache
def plan(*options: str) -> subprocess.CompletedProcess[str]:
    """A plan that writes nothing; each is made once."""
    return fleet("plan", *options)


A4 = ("--machine", "a4-highgpu-8g")
BATCH = (*A4, "--documents", "50000", "--input-tokens", "3000", "--output-tokens", "500", "--deadline", "8h")
USERS = (*A4, "--users", "16000")
RATE = (*A4, "--requests-per-second", "640", "--ttft-p99-ms", "15000", "--tpot-ms", "60")
EXAMPLES = (BATCH, USERS, (*A4, "--tokens-per-second", "1e6"), (*A4, "--usd-per-hour", "500"), RATE)


@pytest.mark.parametrize("options", EXAMPLES, ids=lambda options: options[2])
def test_every_goal_gets_a_fleet(options: tuple[str, ...]) -> None:
    done = plan(*options)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\d A4 nodes? \(\d+ B200\)", " ".join(done.stdout.split()))


def test_a_plan_has_18_options_at_most() -> None:
    options = {one.name for one in get_command(app_with()).commands["plan"].params}
    assert len(options - {"help"}) <= 18


def test_a_plan_needs_no_project_and_a_written_one_does(tmp_path: Path) -> None:
    assert fleet("plan", *USERS, cwd=tmp_path).stdout == plan(*USERS).stdout
    done = fleet("plan", *USERS, "--write", "prod", cwd=tmp_path)
    assert done.returncode == 2
    assert "Pulumi.yaml" in done.stderr


def test_ascii_is_enough() -> None:
    done = fleet("plan", *RATE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout.isascii()) == (0, True)


# Impossible goals and wrong usage -------------------------------------------------------------------------------------


def test_an_impossible_goal_is_a_document_too() -> None:
    done = plan(*A4, "--users", "1000", "--tpot-ms", "2", "--format", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["plan"] is None
    (finding,) = document["findings"]
    assert (finding["id"], finding["severity"]) == ("goal-out-of-reach", "error")
    assert finding["found"]
    assert finding["write"]


@each_row(
    ("options", "message"),
    [
        ((*A4, "--users", "10", "--capacity", "on-demand"), "cud-1y"),
        (("--users", "10", "--region", "Iowa"), "--region Iowa"),
        (("--users", "10", "--machine", "any", "--capacity", "reservation"), "--machine any"),
        (("--users", "10", "--machine", "tpu"), "allowed: any, g2-standard-4"),
        (("--users", "10", "--machine", "h100"), "did you mean a3-highgpu-1g?"),
        (("--users", "10", "--profile", "chat"), "did you mean serve-chat?"),
        (("--users", "10", "--model", "no/model"), "--model no/model"),
        (("--users", "10", "--machine", "g2-standard-12", "--model", "Qwen/Qwen3-32B"), "does not fit one L4"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_write(options: tuple[str, ...], message: str) -> None:
    done = plan(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# JSON ------------------------------------------------------------------------------------------------------


def test_every_machine_answers_one_question_in_text_and_as_a_document() -> None:
    asked = ("--users", "200", "--model", "Qwen/Qwen3-32B-FP8", "--capacity", "spot")
    offers = json.loads(plan(*asked, "--format", "json").stdout)["offers"]
    shown = plan(*asked).stdout
    rows = [line.split()[0] for line in shown.splitlines() if re.match(r" *(a|g)\d\S+ +\S*\d", line)]
    assert rows == [one["machine"] for one in offers if "bound" not in one["label"]]
    assert {one["label"] for one in offers} == {"roofline x/÷ 1.25", "roofline, upper bound"}
    assert plan(*asked, "--machine", "any").stdout == shown


@each_row("machine", ["a3-highgpu-1g", "a3-highgpu-2g"])
def test_what_else_reaches_a_goal_is_followed_by_its_options(machine: str) -> None:
    refused = plan("--usd-per-hour", "5", "--machine", machine)
    assert refused.returncode == 1
    (way,) = re.findall(r"  or: at most (\d+) .*\((--machine [^)]*)\)$", refused.stderr, re.MULTILINE)
    nodes, options = way
    done = plan("--usd-per-hour", "5", *options.split(), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["nodes"] == int(nodes)


@each_row("options", [("--usd-per-node-hour", "30"), ("--capacity", "reservation")])
def test_what_needs_one_machine_gets_the_articles_and_says_so(options: tuple[str, ...]) -> None:
    done = plan("--users", "200", *options)
    assert done.returncode == 0, done.stderr
    assert "a4-highgpu-8g" in done.stdout


def test_the_document_holds_the_whole_plan() -> None:
    document = json.loads(plan(*USERS, "--format", "json").stdout)
    found = document["plan"]
    assert document["question"]["goal"] == {"users": 16_000}
    assert (found["nodes"], found["gpus"]) == (10, 80)
    rate = found["performance"]["totalTokensPerS"]
    assert rate["low"] < rate["value"] < rate["high"]
    assert found["performance"]["outputTokensPerS"]["value"] * 3 == pytest.approx(rate["value"])
    assert found["performance"]["basis"] == "published"
    assert found["money"]["bill"]["usdPerHour"] == pytest.approx(340.86, abs=0.01)
    assert found["money"]["bill"]["unknown"]
    assert sum(step["likelySeconds"] for step in found["timeToServe"]["steps"]) == pytest.approx(
        found["timeToServe"]["likelySeconds"]
    )


def test_every_key_of_the_document_is_in_camel_case() -> None:
    keys = re.findall(r'^ *"([^"]+)": ', plan(*BATCH, "--format", "json").stdout, re.MULTILINE)
    assert len(keys) > 100
    assert [key for key in keys if not re.fullmatch(r"[a-z][A-Za-z0-9]*", key)] == []


def test_a_document_goes_to_its_file_and_says_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    done = fleet("plan", *USERS, "--format", f"json={file}")
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
    assert json.loads(file.read_text(encoding="utf-8"))["plan"]["nodes"] == 10
    missing = fleet("plan", *USERS, "--format", f"json={tmp_path / 'no' / 'plan.json'}")
    assert missing.returncode == 2
    assert str(tmp_path / "no") in missing.stderr


# A written stack ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_written_stack_is_told_with_what_comes_next_and_never_replaced(tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    write = ("plan", *USERS, "--write", "prod")
    first = fleet(*write, cwd=folder)
    assert first.returncode == 0, first.stderr
    written = ("Pulumi.prod.yaml", "policy/config/prod.json")
    told = first.stdout[first.stdout.index(written[0]) :]
    assert all((folder / file).is_file() and file in told for file in written)
    made = fleet("new", "copy", "--from", "prod", cwd=folder)
    commands = [line.strip() for line in made.stdout.splitlines() if "→" in line]
    assert [line for line in told.splitlines() if "→" in line] == [one.replace("copy", "prod") for one in commands]
    again = fleet(*write, cwd=folder)
    assert again.returncode == 2
    assert "Pulumi.prod.yaml" in again.stderr


@pytest.mark.slow
@each_row(
    ("options", "machine", "region", "profile"),
    [
        ((), "a3-highgpu-1g", "europe-north1", "serve-chat"),
        (("--region", "us-central1-a"), "a3-highgpu-1g", "us-central1", "serve-chat"),
        (("--usd-per-node-hour", "30"), "a4-highgpu-8g", "europe-west4", "serve-chat"),
        ((*A4, "--profile", "record"), "a4-highgpu-8g", "europe-west4", "record"),
    ],
)
def test_a_written_stack_is_on_the_recommended_machine_and_a_current_release(
    tmp_path: Path, options: tuple[str, ...], machine: str, region: str, profile: str
) -> None:
    folder = project(tmp_path / ("-".join(options) or "none"))
    done = fleet("plan", "--users", "50", *options, "--write", "mine", cwd=folder)
    assert done.returncode == 0, done.stderr
    settings = open_stack(folder, "mine").settings
    assert (settings.machine.type, settings.region, settings.server.profile) == (machine, region, profile)


# Speed ----------------------------------------------------------------------------------------------------------------


def test_a_plan_loads_neither_pulumi_nor_the_settings() -> None:
    heavy = {"pulumi", "grpc", "settings.stack", "fleet.preview"}
    assert not heavy & {*loaded_by("plan", *USERS, "--format", "json")}


@pytest.mark.slow
def test_the_whole_process_takes_less_than_200_units() -> None:
    """Of `tests.processor`: 1.2 s of an idle core; measured: 70."""

    def units() -> float:
        unit = unit_seconds()
        before = os.times()
        subprocess.run(
            [*COMMAND, "plan", *USERS],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        )
        after = os.times()
        return (after.children_user + after.children_system - before.children_user - before.children_system) / unit

    assert min(units() for _ in range(3)) < 200
