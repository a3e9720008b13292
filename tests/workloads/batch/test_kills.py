"""Whatever is killed, whenever: each input line has exactly one result line."""

from __future__ import annotations

import random

import pytest

from lab.simulators.model_server.node import Faults, Pace
from tests.workloads.batch.fleet import Fleet, Served
from tests.workloads.batch.stored import PREFIX, counted, custom_id, names, read, result_lines, store_batch, store_terms

DOCUMENTS, OF_SHARD, SERVERS, KILLS = 400, 16, 2, 9
POISON = "poison"
ENOUGH_SECONDS = 240.0
"""Nothing is judged by time; without an end the test fails."""


@pytest.mark.slow
def test_every_line_has_one_result_whatever_is_killed() -> None:
    chance = random.Random(2)
    served = Served(
        pace=Pace(fixed_s=0.03), max_num_seqs=16, faults=Faults(error_share=0.03, cut_share=0.03, failing_word=POISON)
    )
    bad = chance.randrange(DOCUMENTS)
    prompts = [f"text {n} {POISON if n == bad else 'good'}" for n in range(DOCUMENTS)]
    with Fleet(served, servers=SERVERS, speed=60, bucket_fails=0.05) as fleet:
        store_batch(fleet.bucket, prompts, of_shard=OF_SHARD, tokens=8, servers=3)
        fleet.start_servers(*range(SERVERS))
        fleet.start_clients(0, 1, 2)
        kills = 0
        ways = ["client", "server", "fleet", "end"]
        # Each way at least once. Who sleeps through its leases comes last: the others end the batch meanwhile, or nearly.
        ways = [*chance.sample(ways, len(ways)), *chance.choices(ways, k=KILLS - len(ways) - 1), "sleep"]
        stop_at = chance.randrange(DOCUMENTS // 3, DOCUMENTS // 2)
        for goal in sorted(chance.sample(range(1, DOCUMENTS * 6 // 10), KILLS)):
            if goal > stop_at:
                # Stopped half way; it goes on with another number of clients.
                fleet.bucket.put(f"{PREFIX}stop.json", b'{"reason": "cancelled", "at": 1}')
                fleet.wait(lambda: not fleet.clients, ENOUGH_SECONDS)
                assert set(fleet.ended) <= {0, 143}
                stop_at = DOCUMENTS
                number = chance.choice((2, 4))
                store_terms(fleet.bucket, servers=number)
                fleet.start_clients(*range(number))
            fleet.wait(lambda goal=goal: fleet.stored >= goal, ENOUGH_SECONDS)
            victim = chance.choice(sorted(fleet.clients))
            match ways[kills]:
                case "client":
                    fleet.kill_client(victim)
                case "end":
                    fleet.end_client(victim)
                case "sleep":
                    fleet.sleep_through_leases(victim, ENOUGH_SECONDS)
                case "server":
                    number = chance.randrange(SERVERS)
                    fleet.kill_server(number)
                    fleet.start_servers(number)
                case "fleet":
                    for number in range(SERVERS):
                        fleet.kill_server(number)
                    fleet.start_servers(*range(SERVERS))
            kills += 1
        fleet.wait(lambda: not fleet.clients, ENOUGH_SECONDS)
        assert (kills, stop_at) == (KILLS, DOCUMENTS)
        found = counted(fleet.bucket)
        assert found.is_each_once(DOCUMENTS)
        # Of innocent documents some may have met five faults in five attempts.
        assert any(line["custom_id"] == custom_id(bad + 1) and line["error"] for line in result_lines(fleet.bucket))
        summary = read(fleet.bucket, "summary.json")
        assert summary is not None
        assert summary["documents"] == summary["succeeded"] + summary["failed"] == DOCUMENTS
        assert summary["failed"] == sum(found.failed.values())
        assert names(fleet.bucket, "leases/") == names(fleet.bucket, "parts/") == []
