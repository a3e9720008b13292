from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lab.simulators.bucket import LocalBucket
from tests.workloads.batch.played import batches
from tests.workloads.batch.stored import PREFIX, read, store_batch, store_terms
from tests.workloads.batch.test_leases import leases, store
from workloads.batch.pods.keeper import BATCH, TERMS, Batch, Keeper, Terms
from workloads.batch.pods.log import Log
from workloads.batch.pods.requesting import Outcome
from workloads.batch.pods.shards import OpenShard, line_of
from workloads.batch.pods.store import Store
from workloads.batch.pods.times import Times

ONE, TWO = ("10.0.0.1", 8000), ("10.0.0.2", 8000)


class Dated(Store):
    """A bucket whose clock is set by hand."""

    ahead = 0.0

    @property
    def now(self) -> float:
        return super().now + self.ahead


def keeper(bucket: LocalBucket, **how: Any) -> Keeper:
    objects = Dated(bucket.name, bucket.url, bucket.url, pause_seconds=0.01, prefix=PREFIX)
    for name, value in how.items():
        setattr(objects, name, value)
    batch, terms = objects.read(BATCH), objects.read(TERMS)
    assert batch is not None
    assert terms is not None
    log = Log("b", 0, Times())
    return Keeper(objects, Batch.of(batch.content), Terms.of(terms.content), Times(), log)


def turn(one: Keeper, *servers: tuple[str, int]) -> dict[str, Any]:
    one.turn(servers, reason="", blockage="")
    progress = json.loads(one._store._ask("GET", f"{one._store._object('progress.json')}?alt=media")[0])
    assert isinstance(progress, dict)
    return progress


def begin(bucket: LocalBucket, **terms: Any) -> None:
    store_batch(bucket, [f"text {n}" for n in range(8)], of_shard=4, tokens=5, usdPerServerHour=36.0, **terms)


def finish(bucket: LocalBucket, shard: int, *, failed: int = 0) -> None:
    lease = leases(bucket).take(shard, None)
    assert lease is not None
    opened = OpenShard(lease)
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    for number, document in enumerate(opened.load(store(bucket))):
        bad = Outcome("answer", 400, {}, code="http-400") if number < failed else None
        opened.add(line_of("b", document, bad or Outcome("answer", 200, {"usage": usage})))
    opened.finish(store(bucket))


def test_dollars_are_servers_times_time_with_start_and_a_gap_at_the_larger_size() -> None:
    with batches() as bucket:
        begin(bucket, startSeconds=100.0)
        one = keeper(bucket)
        assert turn(one)["state"] == "waiting"
        one._store.ahead = 100.0
        # A server came: its start, and the time since the last turn.
        assert abs(turn(one, ONE)["usd"] - 2.0) < 0.1
        one._store.ahead = 200.0
        assert abs(turn(one, ONE, TWO)["usd"] - (2.0 + 2.0 + 1.0)) < 0.1
        # It ends; the next one comes 1,000 s later and finds one server.
        other = keeper(bucket, ahead=1_200.0)
        assert abs(turn(other, ONE)["usd"] - (5.0 + 20.0)) < 0.1
        other._store.ahead = 1_300.0
        assert abs(turn(other, ONE)["usd"] - 26.0) < 0.1


def test_at_the_limit_it_stops_with_the_servers_last_minutes_in_reserve() -> None:
    with batches() as bucket:
        begin(bucket, maxUsd=10.0, idleSeconds=300.0)
        one = keeper(bucket)
        turn(one, ONE)
        one._store.ahead = 690.0
        turn(one, ONE)
        assert read(bucket, "stop.json") is None
        one._store.ahead = 710.0
        turn(one, ONE)
        stop = read(bucket, "stop.json")
        assert stop is not None
        assert stop["reason"] == one.reason == "max-usd"
        assert turn(one, ONE)["state"] == "stopped"


def test_a_limit_that_is_raised_meanwhile_holds() -> None:
    with batches() as bucket:
        begin(bucket, maxUsd=1.0)
        one = keeper(bucket)
        turn(one, ONE)
        store_terms(bucket, maxUsd=100.0, usdPerServerHour=36.0)
        one._next_terms = 0.0
        one._store.ahead = 500.0
        assert turn(one, ONE)["usd"] > 1.0
        assert read(bucket, "stop.json") is None


def test_time_between_a_stop_and_the_next_run_is_not_paid() -> None:
    with batches() as bucket:
        begin(bucket)
        one = keeper(bucket)
        turn(one, ONE)
        one.turn([ONE], reason="cancelled", blockage="")
        before = turn(one, ONE)["usd"]
        # Of a laptop whose clock is an hour ahead.
        store_terms(bucket, began=time.time() + 90_000, usdPerServerHour=36.0)
        other = keeper(bucket, ahead=86_410.0)
        assert abs(turn(other, ONE)["usd"] - before) < 0.05


def test_clients_that_ended_without_a_word_are_paid_for_the_servers_idle_time() -> None:
    with batches() as bucket:
        begin(bucket)
        one = keeper(bucket)
        before = turn(one, ONE)["usd"]
        store_terms(bucket, began=time.time() + 86_400, usdPerServerHour=36.0, idleSeconds=300.0)
        other = keeper(bucket, ahead=86_400.0)
        assert abs(turn(other, ONE)["usd"] - before - 3.0) < 0.1


def test_each_result_is_counted_once_whoever_keeps() -> None:
    with batches() as bucket:
        begin(bucket)
        one, other = keeper(bucket), keeper(bucket)
        finish(bucket, 0, failed=1)
        assert (turn(one)["done"], turn(one)["failed"], turn(one)["inputTokens"]) == (4, 1, 30)
        # Two at a time, as when a pod is thought dead: each adopts what the other wrote.
        assert turn(other)["done"] == 4
        finish(bucket, 1)
        one.turn((), reason="", blockage="")
        assert turn(one)["done"] == turn(other)["done"] == 8
        assert turn(one)["failed"] == 1
        one.turn((), reason="", blockage="")
        one.end()
        summary = read(bucket, "summary.json")
        assert summary is not None
        assert (summary["succeeded"], summary["failed"], summary["failedByCode"]) == (7, 1, {"http-400": 1})
        assert (summary["inputTokens"], summary["outputTokens"]) == (70, 35)


def test_parts_count_until_there_is_a_result() -> None:
    with batches() as bucket:
        begin(bucket)
        lease = leases(bucket).take(1, None)
        assert lease is not None
        shard = OpenShard(lease)
        documents = shard.load(store(bucket))
        shard.add(
            line_of("b", documents[0], Outcome("answer", 200, {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}))
        )
        shard.save(store(bucket), 0)
        progress = turn(keeper(bucket))
        assert (progress["done"], progress["inputTokens"], progress["outputTokens"], progress["shardsDone"]) == (
            1,
            7,
            2,
            0,
        )


@pytest.mark.parametrize(("failed", "told"), [(1, 0), (2, 1)])
def test_documents_that_fail_are_told_from_a_number_on_and_not_in_each_turn(
    failed: int, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workloads.batch.pods.keeper.FEWEST_FAILED", 2)
    with batches() as bucket:
        begin(bucket)
        finish(bucket, 0, failed=failed)
        one = keeper(bucket)
        turn(one, ONE)
        turn(one, ONE)
        lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if line["step"] == "failing"]
        assert [(line["failed"], line["severity"]) for line in lines] == [(failed, "WARNING")] * told
        assert all(line["message"].endswith("2 of 4, most often http-400") for line in lines)
