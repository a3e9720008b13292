from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from lab.simulators.local_server import Answer
from tests.workloads.batch.played import answered, batches, client, run_all, said, serving
from tests.workloads.batch.stored import ID, PREFIX, counted, names, read, result_lines, store_batch, store_terms
from tests.workloads.batch.test_leases import age, leases, store
from workloads.batch.pods.requesting import Outcome
from workloads.batch.pods.shards import OpenShard, line_of
from workloads.batch.pods.store import BucketError


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def good(text: str) -> Outcome:
    return Outcome("answer", 200, {"choices": [{"text": text}], "usage": {"prompt_tokens": 2, "completion_tokens": 1}})


def prompts(number: int) -> list[str]:
    return [f"text {n}" for n in range(1, number + 1)]


def test_two_clients_answer_every_line_once_and_leave_nothing_but_results() -> None:
    with batches() as bucket, serving() as server:
        store_batch(bucket, prompts(200), of_shard=16, tokens=5, servers=2)
        assert run_all(client(bucket, server), client(bucket, server, index=1)) == ["done", "done"]
        assert counted(bucket).is_each_once(200)
        assert names(bucket, "leases/") == names(bucket, "parts/") == []
        summary, progress = read(bucket, "summary.json"), read(bucket, "progress.json")
        assert summary is not None
        assert progress is not None
        assert (summary["documents"], summary["succeeded"], summary["failed"]) == (200, 200, 0)
        assert (summary["inputTokens"], summary["outputTokens"]) == (400, 1000)
        assert (progress["state"], progress["done"], progress["shardsDone"]) == ("done", 200, 13)
        first = next(result_lines(bucket))
        assert first["response"]["status_code"] == 200
        assert first["response"]["body"]["choices"][0]["text"] == "of text 1"
        assert first["error"] is None


def test_a_bad_document_ends_on_its_own_line() -> None:
    tried: Counter[str] = Counter()

    def answer(prompt: str) -> Answer | None:
        tried[prompt] += 1
        if prompt == "text 3":
            return said(400, "too long")
        if prompt == "text 5":
            return said(500)
        if prompt == "text 7":
            return None
        if prompt == "text 9" and tried[prompt] < 3:
            return said(503)
        return answered(prompt)

    with batches() as bucket, serving(answer=answer) as server:
        store_batch(bucket, prompts(40), of_shard=16, tokens=5)
        assert run_all(client(bucket, server, speed=600)) == ["done"]
        found = counted(bucket)
        assert found.is_each_once(40)
        assert found.failed == {"http-400": 1, "http-500": 1, "connection-broken": 1}
        assert (tried["text 3"], tried["text 5"], tried["text 7"], tried["text 9"]) == (1, 5, 5, 3)
        lines = {line["id"].rpartition("-")[2]: line for line in result_lines(bucket)}
        assert lines["3"]["response"]["body"]["error"]["message"] == "too long"
        assert lines["7"]["response"] is None
        summary = read(bucket, "summary.json")
        assert summary is not None
        assert summary["failedByCode"] == found.failed


def test_of_two_holders_of_a_shard_the_second_drops_its_lines_and_no_line_is_twice() -> None:
    with batches() as bucket:
        store_batch(bucket, prompts(4), of_shard=4, tokens=5)
        objects = store(bucket)
        first, second = leases(bucket), leases(bucket)
        mine = first.take(0, None)
        assert mine is not None
        slow = OpenShard(mine)
        documents = slow.load(objects)
        slow.add(line_of(ID, documents[0], good("slow")))
        slow.save(objects, 0)
        slow.add(line_of(ID, documents[1], good("slow")))
        # It sleeps through its lease; the other goes on from its parts.
        age(bucket, "leases/00000", 100)
        theirs = second.take(0, second.listed()[0])
        assert theirs is not None
        quick = OpenShard(theirs)
        left = quick.load(objects)
        assert [document.n for document in left] == [2, 3, 4]
        # It wakes up and stores a part of a document that the other one asks for, too.
        slow.save(objects, 1)
        for document in left:
            quick.add(line_of(ID, document, good("quick")))
        assert quick.is_complete
        assert quick.finish(objects)
        for document in documents[2:]:
            slow.add(line_of(ID, document, good("slow")))
        assert not slow.finish(objects), "the result is the other's"
        assert counted(bucket).is_each_once(4)
        texts = [line["response"]["body"]["choices"][0]["text"] for line in result_lines(bucket)]
        assert texts == ["slow", "quick", "quick", "quick"]
        assert names(bucket, "parts/") == []


def test_a_paused_fleet_costs_no_attempt_and_loses_nothing() -> None:
    asked: Counter[str] = Counter()
    open_ = threading.Event()

    def answer(prompt: str) -> Answer | None:
        asked[prompt] += 1
        if not open_.is_set():
            # As a router before no server, or a gateway without a route.
            return said(503)
        return answered(prompt)

    with batches() as bucket, serving(answer=answer) as server:
        store_batch(bucket, prompts(30), of_shard=16, tokens=5)
        closed = client(bucket, server, endpoint="http://127.0.0.1:1", speed=600)
        ends = threading.Thread(target=lambda: run_all(closed))
        ends.start()
        wait_for(lambda: closed._work.counts.refused > 18)
        closed.is_terminated = True
        ends.join(30)
        assert names(bucket, "leases/") == names(bucket, "parts/") == names(bucket, "results/") == []
        late = client(bucket, server, speed=600)
        ends = threading.Thread(target=lambda: run_all(late))
        ends.start()
        wait_for(lambda: late._work.counts.refused > 18)
        open_.set()
        ends.join(30)
        found = counted(bucket)
        assert found.is_each_once(30)
        assert not found.failed


def test_a_stopped_batch_goes_on_with_other_clients() -> None:
    go = threading.Event()

    def answer(prompt: str) -> Answer | None:
        if int(prompt.split()[1]) > 20:
            go.wait(30)
        return answered(prompt)

    with batches() as bucket, serving(answer=answer) as server:
        store_batch(bucket, prompts(100), of_shard=16, tokens=5)
        first = client(bucket, server, speed=15)  # requests in flight have four seconds, on any machine
        ends: list[str] = []
        running = threading.Thread(target=lambda: ends.extend(run_all(first)))
        running.start()
        wait_for(lambda: len(server.prompts) > 20)
        bucket.put(f"{PREFIX}stop.json", b'{"reason": "cancelled", "at": 1}')
        wait_for(lambda: first._reason == "cancelled")
        go.set()
        running.join(30)
        assert ends == ["cancelled"]
        before = len(server.prompts)
        assert before < 100
        assert names(bucket, "leases/") == []
        progress = read(bucket, "progress.json")
        assert progress is not None
        assert (progress["state"], progress["reason"], progress["done"]) == ("stopped", "cancelled", before)
        store_terms(bucket, servers=3)
        three = [client(bucket, server, index=index) for index in range(3)]
        assert run_all(*three) == ["done"] * 3
        assert counted(bucket).is_each_once(100)
        assert len(server.prompts) == 100, "what has an answer is not asked again"


def test_requests_in_flight_follow_the_servers_queue() -> None:
    with batches() as bucket, serving(waiting=50.0) as server:
        store_batch(bucket, prompts(200), of_shard=100, tokens=5)
        assert run_all(client(bucket, server, most_in_flight=8)) == ["done"]
        assert server.most_in_flight <= 8
        assert counted(bucket).is_each_once(200)


def test_the_key_is_sent_and_logged_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with batches() as bucket, serving() as server:
        store_batch(bucket, prompts(3), of_shard=2, tokens=5)
        assert run_all(client(bucket, server, key="key-of-a-test")) == ["done"]
        assert set(server.headers) == {"Bearer key-of-a-test"}
    out, err = capfd.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["event"] for line in lines} == {"batch"}
    assert [line["step"] for line in lines if line["step"] in ("started", "done")] == ["started", "done"]
    for text in ("key-of-a-test", "document-1", "text 1"):
        assert text not in out + err


def test_a_batch_that_is_not_there_is_one_clear_error() -> None:
    with batches() as bucket, serving() as server, pytest.raises(BucketError, match=r"has no batch\.json"):
        client(bucket, server).run()
