"""`fleet batch plan` as a user runs it: the report, a deadline that nothing keeps, bad files, and the tokenizer's download."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from facts import hub
from tests.conftest import Golden
from tests.fleet.batch import made
from tests.fleet.cli.command import ROOT, fleet
from tests.guides.test_stack_files import pasted
from tests.support.rows import each_row
from tests.support.simulators.local_server import Answer, Request, served

H100 = ("--machine", "a3-highgpu-1g")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch")
    made.tokenizer(folder)
    texts = ("the law " * (200 + 5 * number) for number in range(200))
    made.write(
        folder / "batch.jsonl",
        *(made.chat(f"d{number}", text, max_tokens=500, model="gpt-9") for number, text in enumerate(texts)),
    )
    made.write(
        folder / "open-model.jsonl", *(made.chat(f"d{number}", "the law", max_tokens=500) for number in range(3))
    )
    made.write(
        folder / "small.jsonl", *(made.chat(f"d{number}", "the law", max_tokens=500, model="m") for number in range(3))
    )
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stack file of the guide's first batch, in a project."""
    return pasted(tmp_path_factory.mktemp("first"), "docs/batch.md", "first") / "Pulumi.first.yaml"


def plan(place: Path, *options: str, file: str = "small.jsonl") -> subprocess.CompletedProcess[str]:
    return fleet("batch", "plan", str(place / file), "--tokenizer", str(place / "tokenizer.json"), *options)


def test_the_report(place: Path, golden: Golden) -> None:
    # Relative: the length of a temporary folder's path would decide where lines break.
    words = "batch plan batch.jsonl --tokenizer tokenizer.json --machine a4-highgpu-8g --deadline 8h --sample 100"
    done = fleet(*words.split(), "--root", str(ROOT), cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    golden("plan/batch.txt", done.stdout)


def test_the_guide_shows_the_report() -> None:
    guide = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    shown = guide.partition("$ fleet batch plan ")[2].partition("\n```")[0].partition("\n")[2]
    report = (ROOT / "tests" / "goldens" / "plan" / "batch.txt").read_text(encoding="utf-8")
    assert all(part.strip("\n") in report for part in shown.split("\n...")), shown


def test_bad_lines_are_told_and_nothing_is_planned(place: Path) -> None:
    made.write(place / "bad.jsonl", made.chat("a", "x", max_tokens=5), made.chat("a", "x", max_tokens=5), b"{")
    done = plan(place, *H100, file="bad.jsonl")
    assert done.returncode == 1
    document = json.loads(plan(place, *H100, "--format", "json", file="bad.jsonl").stdout)
    assert document["badLines"] == 2
    assert [one["subject"] for one in document["findings"]] == ["line 2: custom_id", "line 3"]


def test_the_plan_is_that_of_the_planners_command_on_the_same_load(place: Path) -> None:
    found = json.loads(plan(place, *H100, "--format", "json").stdout)
    tokens = found["inputTokens"], found["outputTokens"]
    words = f"plan --documents 3 --input-tokens {tokens[0]['mean']} --output-tokens {tokens[1]['mean']} --format json"
    planned = json.loads(fleet(*words.split(), *H100).stdout)["plan"]["batch"]
    # The planner's command has the mean lengths alone.
    assert planned["usd"] == pytest.approx(found["plan"]["batch"]["usd"], rel=0.01)
    assert planned["totalHours"] == pytest.approx(found["plan"]["batch"]["totalHours"], rel=0.01)


def test_without_a_machine_every_machine_is_compared(place: Path) -> None:
    found = json.loads(plan(place, "--format", "json").stdout)
    assert len({offer["machine"] for offer in found["offers"]}) > 1
    assert found["documents"] == 3


def test_without_limits_in_the_lines_the_mean_answer_is_asked_for(place: Path) -> None:
    made.write(place / "open.jsonl", made.chat("a", "x"))
    done = plan(place, *H100, file="open.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the first is line 1" in done.stderr
    assert "--output-tokens" in done.stderr
    assert plan(place, *H100, "--output-tokens", "9", file="open.jsonl").returncode == 0


@each_row(
    "options, code, said",
    [
        (("--deadline", "10m"), 1, "start-up"),
        (("--deadline", "10m"), 1, "goal-out-of-reach"),
        (("--output-tokens", "501"), 2, "--output-tokens 501"),
        (("--deadline", "soon"), 2, "8h"),
        (("--id", "key"), 2, "--template"),
        (("--deadline=-1h",), 2, "--deadline '-1h' is not a duration"),
        (("--stack", "dev"), 2, "--machine cannot be combined with --stack"),
        (("--stack", "nope"), 2, "Pulumi.nope.yaml"),
        (("--region", "mars"), 2, "--region mars"),
    ],
)
def test_what_cannot_be_kept_or_is_wrong_is_told(options: tuple[str, ...], code: int, said: str, place: Path) -> None:
    done = plan(place, *H100, *options)
    assert done.returncode == code
    assert said in (done.stdout if code == 1 else done.stderr)


def test_a_template_and_an_id_read_a_plain_jsonl(place: Path) -> None:
    made.write(place / "plain.jsonl", {"key": 1, "text": "the law"}, {"key": 2, "text": "the law"})
    options = ("--template", "the law {text}", "--id", "key", "--output-tokens", "20", "--format", "json")
    found = json.loads(plan(place, *H100, *options, file="plain.jsonl").stdout)
    assert (found["documents"], found["inputTokens"]["low"]) == (2, 4 + 2)  # a message's least


def test_a_stack_decides_model_machine_and_context(place: Path) -> None:
    done = plan(place, "--stack", "smoke", "--format", "json")
    found = json.loads(done.stdout)
    assert found["question"]["machine"] == "g2-standard-12"
    assert [one["id"] for one in found["findings"]] == ["other-model", "other-tokenizer"]


def test_a_wrong_deadline_of_a_stack_is_no_defect(place: Path) -> None:
    done = plan(place, "--stack", "smoke", "--deadline", "soon")
    assert done.returncode == 2
    assert "'soon' is not a duration" in done.stderr


def test_a_stacks_deadline_and_prices_are_those_of_its_stack_file(place: Path, first: Path) -> None:
    options = ("--stack", "first", "--root", str(first.parent), "--format", "json")
    found = json.loads(plan(place, *options, file="open-model.jsonl").stdout)
    assert found["question"]["goal"]["deadlineHours"] == 2
    said = plan(place, *options[:4], file="open-model.jsonl").stdout
    paused = re.search(r"at 0 replicas: at least (\S+) an hour", " ".join(said.split()))
    shown = fleet("preview", *options[:4], "--no-policy").stdout
    assert paused is not None
    assert f"{paused[1]} an hour with 0 nodes" in shown


def test_a_price_that_a_stack_states_is_that_of_its_nodes(place: Path, first: Path) -> None:
    stack = first.read_text(encoding="utf-8")
    capacity = "mode: flex-start\n    runDurationSeconds: 14400\n    usdPerNodeHour: 0.9"
    (place / "stacks").mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", place / "stacks")
    (place / "stacks" / "Pulumi.flex.yaml").write_text(stack.replace("mode: spot #", f"{capacity} #"), encoding="utf-8")
    words = ("--stack", "flex", "--root", str(place / "stacks"), "--format", "json")
    done = plan(place, *words, file="open-model.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["question"]["capacity"], found["plan"]["money"]["usdPerNodeHour"]) == ("flex-start", 0.9)
    assert found["plan"]["batch"]["usd"] > 0


@each_row(
    "given, said",
    [("gs://bucket/x.jsonl", "gs://bucket/x.jsonl: plan reads files of this machine"), ("", ": a folder")],
)
def test_what_is_no_file_of_this_machine_is_told(given: str, said: str, place: Path) -> None:
    done = fleet("batch", "plan", given or str(place), "--tokenizer", str(place / "tokenizer.json"), *H100)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.fixture
def _a_hub(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub on this machine that has the tokenizer of one revision."""
    content = (place / "tokenizer.json").read_bytes()

    def answer(request: Request) -> Answer:
        return Answer(200, content) if request.path.startswith("/Qwen/Qwen3.5-27B-FP8/resolve/") else Answer(401, b"")

    with served(answer) as port:
        monkeypatch.setattr(hub, "HUB", f"http://127.0.0.1:{port}")
        yield


@pytest.mark.usefixtures("_a_hub")
def test_the_tokenizer_is_the_hubs_at_the_pinned_revision(place: Path) -> None:
    done = fleet("batch", "plan", str(place / "small.jsonl"), *H100)
    assert done.returncode == 0
    assert "Qwen/Qwen3.5-27B-FP8 at 2e1b21350ce5" in done.stdout.replace("\n  ", " ")
    refused = fleet("batch", "plan", str(place / "small.jsonl"), *H100, "--model", "Qwen/Qwen3-32B-FP8")
    assert refused.returncode == 2
    assert "--tokenizer" in refused.stderr


def test_without_a_hub_the_error_says_what_to_download(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "HUB", "http://127.0.0.1:9")
    done = fleet("batch", "plan", str(place / "small.jsonl"), *H100)
    assert (done.returncode, done.stdout) == (2, "")
    assert "/Qwen/Qwen3.5-27B-FP8/resolve/2e1b21350ce589fcaafbb3c7d7eac526a7aed582/tokenizer.json" in done.stderr
    assert "--tokenizer tokenizer.json" in done.stderr


def test_lines_are_judged_without_a_tokenizer_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "HUB", "http://127.0.0.1:9")
    # The first is longer than any context by its bytes: it would be counted at once.
    made.write(place / "bad.jsonl", made.chat("a", "x" * 2_000_000), made.chat("a", "y"), made.chat("b", "z", n=2))
    done = fleet("batch", "plan", str(place / "bad.jsonl"), *H100, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    assert [one["id"] for one in json.loads(done.stdout)["findings"]] == ["id-twice", "not-served"]
