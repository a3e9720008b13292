"""`fleet batch run`, `status`, `fetch` and `cancel` as a user meets them: a bucket over HTTP, a cluster in files, clients played."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from fleet.batch.stored import upload
from fleet.cli.batch import batch
from tests.conftest import Golden
from tests.fleet.batch import made
from tests.fleet.batch.cluster import NAMESPACE, STACK, Place, place
from tests.fleet.cli.command import ROOT
from workloads.batch.job import BATCH_LABEL


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr("fleet.batch.shards.LEAST_DOCUMENTS", 10)
    with place(tmp_path) as found:
        made.write(found.folder / "batch.jsonl", *(made.chat(f"d{n}", f"the law {n}") for n in range(24)))
        yield found


def started(here: Place, *options: str) -> str:
    done = here.run("batch.jsonl", "--detach", *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return here.id()


def refused(here: Place, *arguments: str) -> str:
    # Detached: what is not refused does not wait.
    done = here.run(*arguments, "--detach")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("fleet: "), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def runs(here: Place, id_: str) -> list[dict[str, Any]]:
    return list(here.stored(id_, "runs.json")["runs"])


def stored(here: Place, *counts: int, job: dict[str, Any] | None = None, **run: Any) -> str:
    """A batch that was started, without its shards; `job`: status of its Job, which is gone without one."""
    id_, now = "b0123456789ab", time.time()
    counts = counts or (10, 10, 4)
    batch = {"id": id_, "name": "batch.jsonl", "url": "u", "model": "m", "documents": sum(counts), "counts": counts}
    here.put(id_, "batch.json", {**batch, "created": now})
    known = {"began": now - 600, "servers": 1, "deadline": now + 8 * 3600, "maxUsd": 500.0, "usdPerHour": 30.0}
    known |= {"idleUsd": 4.0, "until": now + 8 * 3600, "ended": None}
    here.put(id_, "runs.json", {"runs": [{**known, **run}]})
    if job is not None:
        labels = {"app": "batch", BATCH_LABEL: id_}
        spec = {"completions": len(counts) + 1, "parallelism": 4, "suspend": job.pop("suspend", False)}
        metadata = {"name": f"batch-{id_}", "namespace": NAMESPACE, "uid": "1", "labels": labels}
        here.keep("job", {"metadata": metadata, "spec": spec, "status": job})
    return id_


def test_a_run_sends_every_document_and_starts_one_job(here: Place) -> None:
    done = here.run("batch.jsonl", "--detach", "--deadline", "8h", "--max-usd", "500")
    assert (done.returncode, done.stderr) == (0, "")
    id_ = here.id()
    documents = here.documents(id_)
    assert [one["custom_id"] for one in documents] == [f"d{n}" for n in range(24)]
    assert [one["n"] for one in documents] == list(range(1, 25))
    body = documents[0]["body"]
    assert body["max_tokens"] == 100
    assert body["model"] == here.stored(id_, "batch.json")["model"]
    assert body["messages"] == [{"role": "user", "content": "the law 0"}]
    batch = here.stored(id_, "batch.json")
    assert (batch["documents"], batch["counts"], batch["url"]) == (24, [10, 10, 4], "/v1/chat/completions")
    (run,) = runs(here, id_)
    assert run["deadline"] == run["until"]
    # It begins with its Job: documents were sent before, and nothing was paid.
    assert run["until"] - 8 * 3600 <= batch["created"] <= run["began"] < run["until"] - 8 * 3600 + 60
    assert (run["maxUsd"], run["servers"], run["ended"]) == (500.0, 1, None)
    job = here.job()
    assert job["metadata"]["name"] == f"batch-{id_}"
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (4, 4)
    assert job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "fleet"
    (config,) = here.objects("configmap")
    assert config["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    # Documents before batch.json, the run before its Job.
    assert [name.rpartition("/")[2] for name in here.google.uploaded][-2:] == ["batch.json", "runs.json"]
    for words in (f"fleet batch status {id_}", f"fleet batch fetch {id_}", f"fleet batch cancel {id_}"):
        assert words in done.stdout


def test_the_same_file_goes_on_over_the_shards_without_a_part_and_sends_nothing_again(here: Place) -> None:
    id_ = started(here)
    here.finish(id_, only=2)
    here.end_jobs("Failed")
    here.google.uploaded.clear()
    assert here.run("batch.jsonl", "--detach").returncode == 0
    assert [name.rpartition("/")[2] for name in here.google.uploaded] == ["runs.json"] * 2
    first, second = runs(here, id_)
    assert first["began"] < first["ended"] <= second["began"]
    assert here.job()["spec"]["completions"] == 2
    (container,) = here.job()["spec"]["template"]["spec"]["containers"]
    assert "--shards=2-3" in container["args"]


def test_a_running_batch_keeps_its_limits_and_another_is_refused(here: Place) -> None:
    id_ = started(here)
    job, known = here.job(), runs(here, id_)
    assert f"Batch {id_} is running already" in here.run("batch.jsonl", "--detach").stdout
    assert "--servers, or" not in refused(here, "batch.jsonl", "--servers", "3")
    assert (here.job(), runs(here, id_)) == (job, known)
    made.write(here.folder / "other.jsonl", made.chat("a", "x"))
    here.google.uploaded.clear()
    assert f"fleet batch cancel {id_}" in refused(here, "other.jsonl")
    assert here.google.uploaded == []


def test_a_bad_file_is_told_by_line_before_anything_is_sent(here: Place) -> None:
    lines = (
        made.chat("a", "x"),
        made.chat("a", "y"),
        made.chat("b", "x", model="gpt-9"),
        made.completion("c", "x"),
        b"{",
    )
    made.write(here.folder / "bad.jsonl", *lines)
    done = here.run("bad.jsonl")
    assert done.returncode == 1
    for words in ("line 2: custom_id", "line 3: body.model", "line 4: url", "line 5", "nothing was sent"):
        assert words in done.stdout
    assert (here.google.uploaded, here.asked()) == ([], [])


@pytest.mark.slow
def test_limits_that_no_run_keeps_are_told_with_what_would(here: Place) -> None:
    made.write(here.folder / "long.jsonl", *(made.chat(f"d{n}", "the law", max_tokens=8_000) for n in range(5_000)))
    (here.root / "Pulumi.try.yaml").write_text(STACK.replace("max: 4", "max: 1"))
    said = refused(here, "long.jsonl", "--deadline", "30m", "--max-usd", "500")
    for deadline, word in (("9d", "up to 7d"), ("soon", "not a duration")):
        assert word in refused(here, "no-such.jsonl", "--deadline", deadline)
    for words in ("--deadline 30m needs 2 servers", "server.scaling.max: 2", "--servers 1", "pulumi up --stack try"):
        assert words in said
    assert "server.scaling.max of stack try" in refused(here, "batch.jsonl", "--servers", "5")
    said = refused(here, "batch.jsonl", "--max-usd", "1")
    assert "until idle machines are gone" in said
    assert "pass --max-usd" in said
    assert here.google.uploaded == []


def test_the_cost_is_confirmed(here: Place) -> None:
    done = here.batch("run", "batch.jsonl", "--tokenizer", str(here.folder / "tokenizer.json"))
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "1 server (at most 4; a4-highgpu-8g, spot in europe-west4)" in " ".join(done.stdout.split())
    assert here.google.uploaded == []


@pytest.mark.slow
def test_a_job_that_cannot_be_made_is_one_error_and_the_next_run_goes_on(here: Place) -> None:
    here.trouble(
        "create",
        'Error from server (Forbidden): jobs is forbidden: User "me" cannot create resource "jobs" in API group ""',
    )
    assert 'cannot create resource "jobs"' in refused(here, "batch.jsonl")
    assert here.objects("job") == []
    (uploaded,) = (name for name in here.google.contents if name.endswith("runs.json"))
    assert json.loads(here.google.contents[uploaded]) == {"runs": []}  # what never began costs nothing
    (here.cluster / "trouble-create").unlink()
    assert started(here)


def test_a_bucket_that_refuses_is_one_error_and_no_job_is_made(here: Place) -> None:
    here.google.statuses = [200] * 4 + [403] * 20
    said = refused(here, "batch.jsonl")
    assert "gs://results/batches/" in said
    assert here.objects("job") == []


@pytest.mark.slow
def test_a_stack_that_is_not_prepared_is_refused(here: Place) -> None:
    file = here.root / "Pulumi.try.yaml"
    file.write_text(STACK.replace("serve-chat", "record"))
    assert "differs from its file" in refused(here, "batch.jsonl")
    file.write_text(STACK.replace("scaling: {mode: batch, max: 4}", "replicas: 1").partition("  vllm-fleet:batch:")[0])
    assert "batch.enabled is false" in refused(here, "batch.jsonl")


@pytest.mark.slow
def test_a_file_in_a_bucket_is_read_with_the_users_login(here: Place) -> None:
    here.google.put("in/batch.jsonl", (here.folder / "batch.jsonl").read_bytes())
    (here.folder / "batch.jsonl").unlink()
    assert "FILE is missing" in refused(here)
    (here.root / "Pulumi.try.yaml").write_text(
        STACK.replace("{enabled", '{input: "gs://results/in/batch.jsonl", enabled')
    )
    assert here.run("--detach").returncode == 0
    assert len(here.documents(here.id())) == 24
    assert "not found" in refused(here, "gs://results/in/none.jsonl")


def test_rows_of_a_template_become_the_stacks_requests(here: Place) -> None:
    section = '{enabled: true, template: "Sum up: {text}", id: key, defaults: {maxTokens: 9, temperature: 0}}'
    (here.root / "Pulumi.try.yaml").write_text(STACK.replace("{enabled: true, defaults: {maxTokens: 100}}", section))
    made.write(here.folder / "rows.jsonl", *({"key": n, "text": "the law"} for n in range(3)))
    assert here.run("rows.jsonl", "--detach").returncode == 0
    documents = here.documents(here.id())
    assert documents[1]["custom_id"] == "1"
    assert documents[1]["body"] == {
        "messages": [{"role": "user", "content": "Sum up: the law"}],
        "model": here.stored(here.id(), "batch.json")["model"],
        "max_tokens": 9,
        "temperature": 0,
    }


def test_a_finished_batch_is_fetched_checked_and_not_run_again(here: Place) -> None:
    id_ = started(here)
    here.finish(id_, lambda custom_id: custom_id in ("d7", "d12"))
    done = here.batch("fetch", id_)
    assert done.returncode == 1, done.stderr
    assert "24 of 24 documents, 2 with an error (2 http-400)" in done.stdout
    assert "154 tokens in" in done.stdout
    folder = here.folder / "out" / "batches" / id_
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [line["custom_id"] for line in lines] == [f"d{n}" for n in range(24)]
    assert [line["custom_id"] for line in lines if line["error"]] == ["d7", "d12"]
    assert {path.name for path in folder.iterdir()} == {"results.jsonl", "summary.json"}
    jobs = here.objects("job")
    again = here.run("batch.jsonl")
    assert again.returncode == 1
    assert "has its result already" in again.stdout
    assert here.objects("job") == jobs


def test_the_results_so_far_are_of_the_shards_that_are_done(here: Place) -> None:
    id_ = started(here)
    none = here.batch("fetch", "--partial")
    assert none.returncode == 1
    assert "No document" in none.stdout
    here.finish(id_, lambda custom_id: custom_id == "d3", only=2)
    assert "--partial" in here.batch("fetch", id_).stderr
    done = here.batch("fetch", id_, "--partial")
    assert done.returncode == 1, done.stderr
    assert "20 of 24 documents, 1 with an error" in done.stdout
    text = (here.folder / "out" / "batches" / id_ / "results-so-far.jsonl").read_text()
    assert [json.loads(line)["custom_id"] for line in text.splitlines()] == [f"d{n}" for n in range(20)]


def test_the_status_in_the_guide(here: Place, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 1, 9, tzinfo=UTC).timestamp()
    monkeypatch.setattr("fleet.batch.status.time", SimpleNamespace(time=lambda: now))
    job = {"active": 30, "ready": 30, "completedIndexes": "0-99"}
    times = {"began": now - 1800, "until": now + 4.5 * 3600, "deadline": now + 7.5 * 3600}
    id_ = stored(here, *[125] * 400, job=job, servers=2, maxUsd=200.0, usdPerHour=68.25, **times)
    text = here.batch("status", id_).stdout.replace(here.where, "--stack try")
    golden("batch/status.txt", text)
    shown = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8").partition(f"$ fleet batch status {id_}")[2]
    shown = shown.partition("\n```")[0].partition("\n")[2]
    assert all(part.strip("\n") in text for part in shown.split("\n..."))


OVER = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}


def ended(seconds: float) -> dict[str, Any]:
    """Status of a Job that failed so long ago."""
    at = datetime.fromtimestamp(time.time() - seconds, UTC).isoformat()
    return {"conditions": [{**OVER, "lastTransitionTime": at}], "completedIndexes": "0"}


@pytest.mark.parametrize(
    ("job", "run", "state", "finding"),
    [
        (None, {}, "stopped", None),
        ({}, {}, "waiting", None),
        ({"ready": 2}, {}, "running", None),
        ({"ready": 2, "completedIndexes": "0-2"}, {}, "running", None),
        ({"ready": 2, "completedIndexes": "0"}, {"until": time.time() + 60}, "running", "batch-late"),
        ({"suspend": True}, {}, "suspended", "batch-suspended"),
        (ended(120), {}, "failed", "batch-failed"),
        (ended(120), {"until": time.time() - 120}, "limit", "batch-limit"),
    ],
)
def test_a_status_is_the_jobs_and_what_needs_a_hand_is_a_finding(
    here: Place, job: dict[str, Any] | None, run: dict[str, Any], state: str, finding: str | None
) -> None:
    id_ = stored(here, job=None if job is None else dict(job), **run)
    done = here.batch("status", id_, "--format", "json")
    found = json.loads(done.stdout)
    assert (found["state"], found["shards"]) == (state, 4)
    assert found["done"] == {"0": 1, "0-2": 3}.get((job or {}).get("completedIndexes", ""), 0)
    assert [one["id"] for one in found["findings"]] == [finding] * (finding is not None)
    for one in found["findings"]:
        # A user's own namespace is another.
        assert one["write"].count("kubectl ") == one["write"].count(f"kubectl --namespace {NAMESPACE} ")
    assert done.returncode == (finding is not None)


def test_a_suspended_batch_whose_time_is_over_is_not_resumed_but_begun_anew(here: Place) -> None:
    over = time.time() - 60
    stored(here, job={"suspend": True, "completedIndexes": "0"}, began=over - 600, until=over, deadline=over)
    (found,) = json.loads(here.batch("status", "--format", "json").stdout)["findings"]
    assert found["id"] == "batch-suspended"
    assert "kubectl patch" not in found["write"]
    for words in ("fleet batch cancel", "--deadline 1h", "--max-usd 36"):
        assert words in found["write"]


def test_the_job_of_an_earlier_run_does_not_end_the_one_that_begins(here: Place) -> None:
    id_ = stored(here, job=ended(1200))
    here.batch("status", id_)
    assert runs(here, id_)[0]["ended"] is None


@pytest.mark.slow
def test_several_batches_are_listed_newest_first(here: Place) -> None:
    first = started(here)
    here.finish(first)
    made.write(here.folder / "other.jsonl", made.chat("a", "x"))
    assert here.run("other.jsonl", "--detach").returncode == 0
    done = here.batch("status", "--format", "json")
    assert [one["name"] for one in json.loads(done.stdout)["batches"]] == ["other.jsonl", "batch.jsonl"]
    assert [one["state"] for one in json.loads(done.stdout)["batches"]] == ["waiting", "done"]
    assert "other.jsonl" in here.batch("status").stdout
    assert "several batches" in here.batch("fetch").stderr
    assert first in here.batch("fetch", "b000000000000").stderr


def test_a_cancelled_batch_goes_on_and_its_time_was_paid(here: Place) -> None:
    id_ = started(here, "--max-usd", "500", "--deadline", "8h")
    done = here.batch("cancel")
    assert (done.returncode, done.stderr) == (0, "")
    assert here.objects("job") == []
    (first,) = runs(here, id_)
    assert first["ended"] >= first["began"]
    assert f"fleet batch fetch {id_} {here.where} --partial" in done.stdout
    assert "no batch runs" in here.batch("cancel").stderr
    assert f"batch {id_} does not run" in here.batch("cancel", id_).stderr
    # The stack's section has other limits meanwhile.
    (here.root / "Pulumi.try.yaml").write_text(STACK.replace("{enabled: true,", "{enabled: true, deadline: 3h,"))
    assert here.run("batch.jsonl", "--detach").returncode == 0
    second = runs(here, id_)[1]
    assert (second["maxUsd"], second["deadline"]) == (500.0, first["deadline"])


@pytest.mark.slow
def test_a_limit_holds_for_all_runs(here: Place) -> None:
    id_ = started(here, "--max-usd", "500")
    here.end_jobs("Failed")
    (first,) = runs(here, id_)
    # Ten hours of it were paid.
    spent = 10 * first["usdPerHour"] + first["idleUsd"]
    for days, is_known in ((2, True), (3, False)):
        began = time.time() - 86_400 * days
        end = began + 36_000
        past = {**first, "began": began, "ended": end if is_known else None, "until": end}
        here.put(id_, "runs.json", {"runs": [past]})
        for job in here.objects("job"):
            job["status"]["conditions"][0]["lastTransitionTime"] = datetime.fromtimestamp(end, UTC).isoformat()
            here.keep("job", job)
        said = refused(here, "batch.jsonl", "--max-usd", f"{spent:.2f}")
        assert f"up to ${spent:,.2f} already" in said
        advised = re.search(r"pass --max-usd ([0-9.]+)", said)
        assert advised is not None, said
    most = float(advised[1]) + 30
    assert here.run("batch.jsonl", "--detach", "--max-usd", f"{most:.2f}", "--servers", "2").returncode == 0
    second = runs(here, id_)[1]
    left = most - spent - second["idleUsd"]
    assert second["until"] - second["began"] == pytest.approx(3600 * left / second["usdPerHour"], abs=2)
    (container,) = here.job()["spec"]["template"]["spec"]["containers"]
    assert f"--until={second['until']:.0f}" in container["args"]
    assert here.job()["spec"]["activeDeadlineSeconds"] == pytest.approx(second["until"] - second["began"] + 180, abs=1)


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_run_that_began_meanwhile_keeps_its_job_and_its_part_of_the_sum(
    here: Place, monkeypatch: pytest.MonkeyPatch, ran_before: bool
) -> None:
    id_ = started(here)
    theirs, job = runs(here, id_)[0], here.job()
    if ran_before:
        here.end_jobs("Failed")
    else:
        here.put(id_, "runs.json", {"runs": []})
        (here.cluster / "objects" / f"job.{job['metadata']['name']}.json").unlink()
    known = [{**one, "ended": one["until"]} for one in runs(here, id_)]
    here.put(id_, "runs.json", {"runs": known})
    send = upload

    def meanwhile(*given: Any) -> Any:
        # A colleague was faster while this run asked for confirmation, or sent documents.
        job["metadata"]["uid"] = "theirs"
        here.keep("job", job)
        here.put(id_, "runs.json", {"runs": [*known, theirs]})
        return send(*given)

    monkeypatch.setattr("fleet.batch.stored.upload", meanwhile)
    assert f"fleet batch status {id_}" in refused(here, "batch.jsonl")
    assert runs(here, id_) == [*known, theirs]
    assert here.job()["metadata"]["uid"] == "theirs"


@pytest.mark.slow
def test_a_deadline_that_has_passed_is_told_with_one_that_can_be_kept(here: Place) -> None:
    id_ = started(here, "--deadline", "8h")
    here.end_jobs("Failed")
    (first,) = runs(here, id_)
    here.put(id_, "runs.json", {"runs": [{**first, "deadline": time.time() - 60, "until": time.time() - 60}]})
    said = refused(here, "batch.jsonl")
    assert "has passed" in said
    advised = re.search(r"pass (--deadline) (\S+h) ", said)
    assert advised is not None, said
    assert here.run("batch.jsonl", "--detach", *advised.groups()).returncode == 0
    assert runs(here, id_)[1]["deadline"] > time.time()


def test_the_guide_names_every_option_of_its_own() -> None:
    guide = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    for name in ("run", "status", "fetch", "cancel"):
        options = {option for parameter in get_command(batch).commands[name].params for option in parameter.opts}
        # Those of every command are in docs/command-line.md; headroom is the planner's.
        shared = {
            "--root",
            "--help",
            "--stack",
            "--outputs",
            "--kubeconfig",
            "--context",
            "--headroom",
        }
        long = {option for option in options if option.startswith("--")} - shared
        assert [option for option in sorted(long) if option not in guide] == []
