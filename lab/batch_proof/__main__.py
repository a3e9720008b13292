"""Measures a batch's clients on this machine: `make batch-proof`.

python -m lab.batch_proof [--documents N] [--seed N] [--rounds N]

First a batch with faults: servers answer some requests with 500 or 503 or break connections, one document always fails, servers and
clients are killed at random documents, and the bucket fails now and then. Then, without faults, a client against a direct loop, in turns.
Needs Linux: memory and CPU are read from /proc. Exit code 1 where a line has none or two results, or memory grows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from fleet.clients.scratch import scratch
from lab.batch_proof.fleet import Fleet, Served
from lab.batch_proof.stored import counted, names, read, store_batch
from lab.simulators.model_server.node import Faults, Pace

SERVERS: Final = 3
CLIENTS: Final = 3
OF_SHARD: Final = 256
TOKENS: Final = 8
SPEED: Final = 10.0
"""Of the clients' durations under faults: leases of 9 s, parts every 1.5 s. More work for the bucket, not less."""
BUCKET_FAILS: Final = 0.02
"""Share of the bucket's answers that are 503; half of those requests were done all the same."""
KILLS: Final = 12
POISON: Final = "poison"
IN_FLIGHT: Final = 16
"""Of client and direct loop: what a client begins with, so that none is compared while it finds its window."""
COMPARED: Final = 3_000
"""Documents of one turn of the comparison."""
END_SECONDS: Final = 3_600.0
MOST_GROWTH: Final = 1.25
"""Of a client's memory from the second tenth of its life to the last: more is no noise of an allocator."""


def main() -> int:
    """Prove, measure, print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="of the batch with faults; 0: none")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rounds", type=int, default=5, help="turns of client and direct loop; 0: none")
    given = parser.parse_args()
    result: dict[str, Any] = {"seed": given.seed}
    is_sound = True
    if given.documents:
        faults = result["faults"] = under_faults(given.documents, given.seed)
        is_sound = faults["eachLineOnce"] and faults["memory"]["growth"] <= MOST_GROWTH
    if given.rounds:
        result["overhead"] = overhead(given.rounds)
    print(json.dumps(result, indent=2))  # noqa: T201 - the result
    return 0 if is_sound else 1


def under_faults(documents: int, seed: int) -> dict[str, Any]:
    """One batch to its end, whatever is killed."""
    chance = random.Random(seed)  # noqa: S311 - a seeded run can be repeated
    faults = Faults(error_share=0.005, cut_share=0.005, unavailable_share=0.005, failing_word=POISON)
    bad = chance.randrange(documents)
    prompts = [f"Summarize text {n} {POISON if n == bad else 'in short'}" for n in range(documents)]
    memory: dict[int, list[int]] = {}
    killed = {"clients": 0, "servers": 0}
    with Fleet(
        Served(pace=Pace(fixed_s=0.005), faults=faults), servers=SERVERS, speed=SPEED, bucket_fails=BUCKET_FAILS
    ) as fleet:
        store_batch(fleet.bucket, prompts, of_shard=OF_SHARD, tokens=TOKENS, servers=CLIENTS)
        fleet.start_servers(*range(SERVERS))
        began = next_sample = time.monotonic()
        fleet.start_clients(*range(CLIENTS))

        def reached(goal: int) -> bool:
            nonlocal next_sample
            if time.monotonic() < next_sample:
                return False
            next_sample = time.monotonic() + 1.0
            for client in fleet.clients.values():
                memory.setdefault(client.pid, []).append(_resident_kib(client.pid))
            return not fleet.clients or fleet.stored >= goal

        for goal in sorted(chance.sample(range(documents // 20, documents * 9 // 10), KILLS)):
            fleet.wait(lambda goal=goal: reached(goal), END_SECONDS)  # type: ignore[misc]
            if chance.random() < 0.5:
                # The first client, which keeps, only once: the memory of one that lives long is wanted, too.
                number = 0 if killed["clients"] == 0 else chance.randrange(1, CLIENTS)
                fleet.kill_client(number)
                killed["clients"] += 1
            else:
                number = chance.randrange(SERVERS)
                fleet.kill_server(number)
                fleet.start_servers(number)
                killed["servers"] += 1
        fleet.wait(lambda: reached(documents + 1) and not fleet.clients, END_SECONDS)
        seconds = time.monotonic() - began
        found = counted(fleet.bucket)
        summary = read(fleet.bucket, "summary.json")
        left = len(names(fleet.bucket, "parts/")) + len(names(fleet.bucket, "leases/"))
    longest = max(memory.values(), key=len)
    tenth = max(1, len(longest) // 10)
    early, late = statistics.median(longest[tenth : 2 * tenth + 1]), statistics.median(longest[-tenth - 1 : -1])
    return {
        "documents": documents,
        "eachLineOnce": found.is_each_once(documents),
        "failed": dict(found.failed),
        "killed": killed,
        "seconds": round(seconds, 1),
        "documentsPerSecond": round(documents / seconds, 1),
        "objectsLeft": left,
        "summary": summary,
        "memory": {
            "secondsOfOneClient": len(longest),
            "earlyMib": round(early / 1024, 1),
            "lateMib": round(late / 1024, 1),
            "mostMib": round(max(map(max, memory.values())) / 1024, 1),
            "growth": round(late / early, 3),
        },
    }


def overhead(rounds: int) -> dict[str, Any]:
    """One client and a direct loop in turns: the same documents, servers and requests in flight."""
    prompts = [f"Summarize text {n} in short" for n in range(COMPARED)]
    turns: dict[str, list[tuple[float, float]]] = {"client": [], "direct": []}
    served = Served(pace=Pace(fixed_s=0.005))
    with scratch("batch-proof") as folder:
        for number in range(rounds + 1):
            for kind in ("client", "direct") if number % 2 else ("direct", "client"):
                options = [f"--most-in-flight={IN_FLIGHT}"]
                with Fleet(served, servers=SERVERS, speed=1.0, options=options) as fleet:
                    store_batch(fleet.bucket, prompts, of_shard=OF_SHARD, tokens=TOKENS)
                    fleet.start_servers(*range(SERVERS))
                    turn = _client_turn(fleet) if kind == "client" else _direct_turn(fleet, folder)
                if number:  # the first one of each warms the machine up
                    turns[kind].append(turn)
    ratios = [
        [client[of] / direct[of] for client, direct in zip(turns["client"], turns["direct"], strict=True)]
        for of in (0, 1)
    ]
    return {
        "documents": COMPARED,
        "inFlight": IN_FLIGHT,
        "rounds": rounds,
        **{
            kind: {
                "documentsPerSecond": round(COMPARED / statistics.median(seconds for seconds, _ in of), 1),
                "cpuMsPerDocument": round(1e3 * statistics.median(cpu for _, cpu in of) / COMPARED, 3),
            }
            for kind, of in turns.items()
        },
        "secondsRatio": _spread(ratios[0]),
        "cpuRatio": _spread(ratios[1]),
    }


def _client_turn(fleet: Fleet) -> tuple[float, float]:
    began = time.monotonic()
    fleet.start_clients(0)
    turn = _end_of(fleet.clients.pop(0), began)
    if not counted(fleet.bucket).is_each_once(COMPARED):
        raise AssertionError("a line of the client has no result, or two")
    return turn


def _direct_turn(fleet: Fleet, folder: Path) -> tuple[float, float]:
    shards, results = folder / "shards.jsonl", folder / "results.jsonl"
    shards.write_bytes(b"".join(fleet.bucket.objects[name].content for name in names(fleet.bucket, "shards/")))
    command = [sys.executable, "-m", "lab.batch_proof.direct", fleet.url, str(shards), str(results), str(IN_FLIGHT)]
    began = time.monotonic()
    turn = _end_of(subprocess.Popen(command), began)
    if len(results.read_bytes().splitlines()) != COMPARED:
        raise AssertionError("a line of the direct loop has no result")
    return turn


def _end_of(process: subprocess.Popen[bytes], began: float) -> tuple[float, float]:
    """Seconds from its start to its end, and its CPU seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode:
        raise AssertionError(f"a turn ended with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }


def _resident_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)


if __name__ == "__main__":
    sys.exit(main())
