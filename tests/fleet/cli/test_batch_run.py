"""`fleet batch run`, `status`, `fetch` and `cancel` as a user meets them: a bucket over HTTP, a cluster in files, clients played."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fleet.cli.batch import batch
from tests.conftest import Golden
from tests.fleet.batch import made
from tests.fleet.batch.cluster import STACK, Place, place
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
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("fleet: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def stored(here: Place, *, documents: int = 24, **terms: Any) -> str:
    """A batch that was started, without its shards."""
    id_, now = "b0123456789ab", time.time()
    batch = {"id": id_, "name": "batch.jsonl", "url": "u", "model": "m", "documents": documents, "counts": [10, 10, 4]}
    here.put(id_, "batch.json", {"version": 1, **batch, "numbers": "", "created": now})
    known = {"began": now, "servers": 1, "deadline": now + 8 * 3600, "maxUsd": 500.0, "usdPerServerHour": 30.0}
    known |= {"usdPerHourFixed": 1.0, "startSeconds": 300.0, "idleSeconds": 660.0, "requestSeconds": 600.0}
    here.put(id_, "terms.json", {**known, "onDone": "pause", **terms})
    return id_


def report(here: Place, id_: str, **told: Any) -> None:
    """progress.json of a first client."""
    known = {
        "documents": 24,
        "done": 6,
        "failed": 2,
        "inputTokens": 9,
        "outputTokens": 9,
        "perSecond": 0.5,
        "servers": 1,
    }
    known |= {"usd": 2.0, "secondsLeft": 900.0, "state": "running", "reason": "", "shardsDone": 0, "since": time.time()}
    here.put(id_, "progress.json", {**known, "at": time.time() + 1, **told})


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
    terms = here.stored(id_, "terms.json")
    assert terms["deadline"] == terms["began"] + 8 * 3600
    assert (terms["maxUsd"], terms["servers"], terms["onDone"]) == (500.0, 1, "pause")
    assert terms["usdPerServerHour"] > terms["usdPerHourFixed"] > 0
    job = here.job()
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (1, 1)
    assert job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "fleet"
    (config,) = here.objects("configmap")
    assert config["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    # Documents before batch.json, terms before the Job's pods could read them.
    assert [name.rpartition("/")[2] for name in here.google.uploaded][-2:] == ["batch.json", "terms.json"]
    for words in (f"fleet batch status {id_}", f"fleet batch fetch {id_}", f"fleet batch cancel {id_}"):
        assert words in done.stdout


def test_the_same_file_is_the_same_batch_and_nothing_is_sent_again(here: Place) -> None:
    id_ = started(here)
    here.end_jobs()
    here.put(id_, "stop.json", {"reason": "cancelled", "at": 1})
    here.google.uploaded.clear()
    del here.google.objects[f"batches/{id_}/shards/00001.jsonl"]
    assert here.run("batch.jsonl", "--detach").returncode == 0
    assert here.google.uploaded == [f"batches/{id_}/shards/00001.jsonl", f"batches/{id_}/terms.json"]
    assert f"batches/{id_}/stop.json" not in here.google.contents
    assert [job["metadata"]["labels"][BATCH_LABEL] for job in here.objects("job")] == [id_, id_]


@pytest.mark.slow
def test_a_job_that_is_stopping_ends_before_the_next_begins(here: Place) -> None:
    id_, before = started(here), here.job()["metadata"]["name"]
    here.put(id_, "stop.json", {"reason": "max-usd", "at": 1})
    assert "Started" in here.run("batch.jsonl", "--detach").stdout
    assert here.job()["metadata"]["name"] != before
    assert f"batches/{id_}/stop.json" not in here.google.contents


@pytest.mark.slow
def test_a_running_batch_gets_another_number_of_servers_and_another_batch_is_refused(here: Place) -> None:
    id_ = started(here)
    assert (
        f"Batch {id_} was running and now has 3 servers."
        in here.run("batch.jsonl", "--detach", "--servers", "3").stdout
    )
    assert (here.job()["spec"]["completions"], here.job()["spec"]["parallelism"]) == (3, 3)
    assert here.stored(id_, "terms.json")["servers"] == 3
    assert "already" in here.run("batch.jsonl", "--detach", "--servers", "3").stdout
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
    (here.cluster / "trouble-create").unlink()
    assert started(here)


def test_a_bucket_that_refuses_is_one_error_and_no_job_is_made(here: Place) -> None:
    here.google.statuses = [200] * 3 + [403] * 20
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


@pytest.mark.slow
def test_a_result_too_many_or_another_lines_is_told(here: Place) -> None:
    id_ = started(here)
    here.finish(id_)
    name = f"batches/{id_}/results/00002.jsonl"
    whole = here.google.contents[name]
    here.google.put(name, whole + whole.splitlines(keepends=True)[0])
    assert "shard 2 has 5 results for 4 documents" in here.batch("fetch", id_).stderr
    here.google.put(name, whole.replace(f"{id_}-24".encode(), f"{id_}-23".encode()))
    assert "not of exactly the input's lines" in here.batch("fetch", id_).stderr
    here.google.put(name, whole)
    assert here.batch("fetch", id_).returncode == 0


def test_the_results_so_far_are_of_results_and_parts(here: Place) -> None:
    id_ = started(here)
    report(here, id_)
    documents = here.documents(id_)
    here.put(id_, "results/00000.jsonl", b"".join(made.result(id_, one) for one in documents[:10]))
    # A former holder's part, and its follower's: both have document 13.
    here.put(id_, "parts/00001/9-0.2.0.14.6.jsonl", b"".join(made.result(id_, one) for one in documents[12:14]))
    here.put(
        id_,
        "parts/00001/12-0.2.1.7.3.jsonl",
        b"".join(made.result(id_, one, lambda _: True) for one in documents[13:15]),
    )
    assert "--partial" in here.batch("fetch", id_).stderr
    done = here.batch("fetch", id_, "--partial")
    assert done.returncode == 1, done.stderr
    assert "13 of 24 documents, 1 with an error" in done.stdout
    text = (here.folder / "out" / "batches" / id_ / "results-so-far.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["custom_id"] for line in lines[10:]] == ["d12", "d13", "d14"]
    assert [bool(line["error"]) for line in lines[10:]] == [False, False, True]


def test_a_status_says_how_far_how_long_and_how_much(here: Place) -> None:
    id_ = stored(here)
    assert "waiting for the first server" in here.batch("status").stdout
    report(here, id_)
    done = here.batch("status", id_)
    assert done.returncode == 0, done.stdout
    told = " ".join(done.stdout.split())
    for words in ("6 of 24 documents (25.0%)", "15 min", "$2.00", "limit $500.00", "of 1 wanted"):
        assert words in told
    found = json.loads(here.batch("status", "--format", "json").stdout)
    assert (found["state"], found["done"], found["terms"]["maxUsd"]) == ("running", 6, 500.0)
    assert found["usdAtEnd"] == pytest.approx(2.0 + 900 * 31 / 3600 + 660 * 30 / 3600)


def test_the_status_in_the_guide(here: Place, golden: Golden) -> None:
    id_ = stored(here, documents=50_000, servers=2, maxUsd=40.0, usdPerServerHour=34.07, usdPerHourFixed=0.11)
    rate = {"documents": 50_000, "done": 12_500, "perSecond": 41.2, "servers": 2, "usd": 8.12, "secondsLeft": 910.0}
    report(here, id_, **rate, failed=3)
    text = here.batch("status", id_).stdout.replace(here.where, "--stack try")
    golden("batch/status.txt", text)
    shown = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8").partition(f"$ fleet batch status {id_}")[2]
    shown = shown.partition("\n```")[0].partition("\n")[2]
    assert all(part.strip("\n") in text for part in shown.split("\n..."))


@pytest.mark.parametrize(
    ("told", "stop", "finding"),
    [
        ({"at": 1.0, "state": "running"}, None, None),
        ({"perSecond": 0.0, "secondsLeft": None}, None, "batch-stalled"),
        ({"secondsLeft": 90_000.0}, None, "batch-late"),
        ({"state": "stopped", "reason": "max-usd"}, {"reason": "max-usd", "at": 1}, "batch-limit"),
    ],
)
def test_what_needs_a_hand_is_a_finding(here: Place, told: dict[str, Any], stop: Any, finding: str | None) -> None:
    id_ = stored(here)
    report(here, id_, **told)
    if stop:
        here.put(id_, "stop.json", stop)
    done = here.batch("status", id_, "--format", "json")
    assert [one["id"] for one in json.loads(done.stdout)["findings"]] == [finding] * (finding is not None)
    assert done.returncode == (finding is not None)


def test_a_batch_without_clients_is_silent(here: Place) -> None:
    id_ = stored(here, began=time.time() - 600)
    report(here, id_, at=time.time() - 300)
    done = here.batch("status", id_, "--format", "json")
    assert [one["id"] for one in json.loads(done.stdout)["findings"]] == ["batch-silent"]
    assert done.returncode == 1


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


def test_a_cancelled_batch_is_told_to_stop_and_its_job_goes(here: Place) -> None:
    id_ = started(here)
    done = here.batch("cancel")
    assert (done.returncode, done.stderr) == (0, "")
    assert here.stored(id_, "stop.json")["reason"] == "cancelled"
    assert here.objects("job") == []
    assert f"fleet batch fetch {id_} {here.where} --partial" in done.stdout
    assert f"fleet batch run FILE {here.where}\n" in done.stdout
    assert "no batch runs" in here.batch("cancel").stderr
    assert f"batch {id_} does not run" in here.batch("cancel", id_).stderr


@pytest.mark.slow
def test_a_limit_that_is_spent_must_be_raised(here: Place) -> None:
    id_ = started(here, "--max-usd", "500")
    here.end_jobs()
    report(here, id_, usd=500.0, state="stopped", reason="max-usd")
    assert "cost $500.00 already" in refused(here, "batch.jsonl", "--max-usd", "500")


def terms_of(here: Place, *options: str) -> dict[str, Any]:
    """Those of another run."""
    done = here.run("batch.jsonl", "--detach", *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return dict(here.stored(here.id(), "terms.json"))


@pytest.mark.slow
def test_a_batch_goes_on_under_the_terms_that_it_had(here: Place) -> None:
    id_ = started(here, "--max-usd", "500", "--deadline", "8h")
    first = here.stored(id_, "terms.json")
    # While it runs: also against the stack's section.
    (here.root / "Pulumi.try.yaml").write_text(
        STACK.replace("{enabled: true,", "{enabled: true, deadline: 3h, maxUsd: 700,")
    )
    assert terms_of(here) == first
    # After its end.
    again = here.batch("cancel").stdout
    assert f"fleet batch run FILE {here.where}\n" in again
    second = terms_of(here)
    assert (second["maxUsd"], second["deadline"]) == (500.0, first["deadline"])
    assert second["began"] > first["began"]
    # An option beats them.
    third = terms_of(here, "--max-usd", "600", "--deadline", "9h")
    assert (third["maxUsd"], third["began"]) == (600.0, second["began"])
    assert third["deadline"] > first["deadline"]


@pytest.mark.slow
def test_a_running_batch_keeps_its_servers(here: Place) -> None:
    id_ = started(here, "--servers", "3")
    assert (
        f"Batch {id_} is running with 3 servers already."
        in here.run("batch.jsonl", "--detach", "--max-usd", "900").stdout
    )
    assert here.job()["spec"]["parallelism"] == 3
    assert terms_of(here)["maxUsd"] == 900.0
    here.batch("cancel")
    assert terms_of(here)["servers"] == 3
    assert terms_of(here, "--deadline", "8h")["servers"] == 1


@pytest.mark.slow
def test_a_batch_that_ends_while_a_person_thinks_is_not_started_again(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.batch import stored as storing

    id_, upload = started(here), storing.upload
    terms, jobs = here.stored(id_, "terms.json"), here.objects("job")

    def meanwhile(*given: Any) -> storing.Batch:
        here.put(id_, "stop.json", {"reason": "max-usd", "at": 1})
        return upload(*given)

    monkeypatch.setattr(storing, "upload", meanwhile)
    done = here.run("batch.jsonl", "--servers", "2")
    assert (done.returncode, done.stderr) == (1, "")
    assert "stopped at its limit" in done.stdout
    assert (here.stored(id_, "terms.json"), here.objects("job")) == (terms, jobs)
    assert here.stored(id_, "stop.json")["reason"] == "max-usd"


@pytest.mark.slow
def test_an_amount_that_is_advised_counts_what_was_spent_and_is_accepted(here: Place) -> None:
    id_ = started(here, "--max-usd", "500")
    here.end_jobs()
    here.put(id_, "stop.json", {"reason": "max-usd", "at": 1})
    for spent, options in ((500.0, []), (20.0, ["--max-usd", "21"]), (20.0, ["--max-usd", "20", "--servers", "2"])):
        report(here, id_, usd=spent, state="stopped", reason="max-usd", at=time.time())
        said = refused(here, "batch.jsonl", *options)
        assert f"cost ${spent:.2f} already" in said
        advised = re.search(r"pass --max-usd ([0-9.]+)", said)
        assert advised is not None, said
        assert float(advised[1]) > spent
    jobs = len(here.objects("job"))
    assert here.run("batch.jsonl", "--detach", "--max-usd", advised[1], "--servers", "2").returncode == 0
    assert len(here.objects("job")) == jobs + 1


@pytest.mark.slow
def test_a_deadline_that_has_passed_is_told_with_one_that_can_be_kept(here: Place) -> None:
    id_ = started(here, "--deadline", "8h")
    passed = {**here.stored(id_, "terms.json"), "deadline": time.time() - 60}
    here.put(id_, "terms.json", passed)
    done = here.run("batch.jsonl", "--detach")
    assert "which has passed" in done.stdout
    assert here.stored(id_, "terms.json")["deadline"] == passed["deadline"]
    here.end_jobs()
    said = refused(here, "batch.jsonl")
    assert "has passed" in said
    advised = re.search(r"pass (--deadline) (\S+h) ", said)
    assert advised is not None, said
    assert here.run("batch.jsonl", "--detach", *advised.groups()).returncode == 0
    assert here.stored(id_, "terms.json")["deadline"] > time.time()


@pytest.mark.slow
def test_the_confirmation_says_what_the_batch_may_cost_and_when_it_ends(here: Place) -> None:
    told = here.run("batch.jsonl", "--detach").stdout
    assert "limit:    no limit\ndeadline: no deadline\n" in told
    report(here, here.id(), usd=7.5)
    told = here.run("batch.jsonl", "--detach", "--max-usd", "500", "--deadline", "8h").stdout
    assert "limit:    $500.00 for all runs, of which $7.50 is spent\n" in told
    deadline = datetime.fromtimestamp(here.stored(here.id(), "terms.json")["deadline"], UTC)
    assert f"deadline: {deadline:%Y-%m-%d %H:}" in told
    assert "in 8 h\n" in told
    told = here.run("batch.jsonl", "--detach").stdout
    assert told.count(", as before") == 2
    told = here.run("batch.jsonl", "--detach", "--max-usd", "600", "--deadline", "9h").stdout
    assert ", instead of $500.00," in told
    assert f", instead of {deadline:%Y-%m-%d %H:%M} UTC\n" in told


@pytest.mark.parametrize(
    ("reason", "state", "command"),
    [
        ("cancelled", "stopped by fleet batch cancel", ""),
        ("max-usd", "stopped at its limit", " --max-usd 86 --servers 1"),
    ],
)
def test_a_stopped_batch_says_why_what_it_cost_and_how_it_goes_on(
    here: Place, reason: str, state: str, command: str
) -> None:
    id_ = stored(here, maxUsd=20.0)
    report(here, id_, usd=20.0, state="stopped", reason=reason)
    here.put(id_, "stop.json", {"reason": reason, "at": 1})
    told = here.batch("status", id_).stdout
    assert f"{state}: 6 of 24 documents" in told
    assert "$20.00" in told
    assert "at the end" not in told
    assert "wanted" not in told
    assert f"fleet batch run FILE {here.where}{command}" in " ".join(told.split())
    assert json.loads(here.batch("status", id_, "--format", "json").stdout)["usdAtEnd"] is None


def test_a_run_that_has_no_report_yet_shows_no_servers_of_the_run_before(here: Place) -> None:
    id_ = stored(here)
    report(here, id_, at=time.time() - 300, servers=3)
    told = " ".join(here.batch("status", id_).stdout.split())
    assert "servers: 0 (of 1 wanted)" in told
    assert "at the end" not in told


@pytest.mark.parametrize(("minutes", "code"), [(10, 0), (20, 1)])
def test_a_batch_is_silent_once_a_client_had_time_for_a_node_and_its_image(
    here: Place, minutes: int, code: int
) -> None:
    id_ = stored(here, began=time.time() - 60 * minutes)
    assert here.batch("status", id_).returncode == code


@pytest.mark.slow
def test_a_batch_that_is_done_is_fetched_and_not_cancelled(here: Place) -> None:
    id_ = started(here)
    none = here.batch("fetch", "--partial")
    assert none.returncode == 1
    assert "No document" in none.stdout
    assert not (here.folder / "out" / "batches" / id_ / "results-so-far.jsonl").exists()
    here.finish(id_)
    for chosen in ([], [id_]):
        assert f"is done: fleet batch fetch {id_} {here.where}" in here.batch("cancel", *chosen).stderr
    # A price for each million tokens is none of a batch that has fewer.
    told = here.batch("status", id_).stdout
    assert "a million tokens" not in told
    assert f"fleet batch fetch {id_} {here.where}" in " ".join(told.split())


def test_the_guide_names_every_option_of_its_own() -> None:
    guide = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    for name in ("run", "status", "fetch", "cancel"):
        options = {option for parameter in get_command(batch).commands[name].params for option in parameter.opts}
        # Those of every command are in docs/command-line.md; headroom and losses are the planner's.
        shared = {
            "--root",
            "--help",
            "--stack",
            "--outputs",
            "--kubeconfig",
            "--context",
            "--headroom",
            "--loss-per-node-day",
        }
        long = {option for option in options if option.startswith("--")} - shared
        assert [option for option in sorted(long) if option not in guide] == []
