from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lab.simulators.model_server.node import Faults, Node, Pace
from lab.simulators.model_server.processes import ServerProcess, ServerProcessError, ServerProcesses

NODE = Node(model="the/model", ranks=2, pace=Pace(fixed_s=0.001))
ROOT = Path(__file__).resolve().parents[4]


def complete(url: str, tokens: int = 5) -> int:
    body = json.dumps({"prompt": "a b", "max_tokens": tokens, "ignore_eos": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", data=body), timeout=20) as answer:
        return int(json.load(answer)["usage"]["completion_tokens"])


def is_alive(pid: int) -> bool:
    try:
        # A zombie is dead; nobody may have read its exit code yet.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(seconds: float, pids: list[int]) -> bool:
    until = time.monotonic() + seconds
    while any(is_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(is_alive(pid) for pid in pids)


def test_connections_to_the_common_port_go_to_the_servers_in_turn_and_counts_are_told() -> None:
    with ServerProcesses([ServerProcess(node=NODE), ServerProcess(node=NODE)]) as servers:
        assert len({servers.url, *servers.urls}) == 3
        for _ in range(6):
            assert complete(servers.url) == 5
        complete(servers.urls[1], tokens=7)
        told = servers.snapshots()
        assert [one["accepted"] for one in told] == [3, 4]
        assert [sum(engine["generation_tokens"] for engine in one["engines"]) for one in told] == [15, 22]
        assert all(one["cpu_seconds"] > 0 for one in told)
        pids = list(servers.pids)
    assert gone_within(10, pids)


def test_each_server_may_have_its_own_faults_and_clock() -> None:
    slow = Node(model="m", ranks=1, pace=Pace(fixed_s=1.0))
    one = ServerProcess(node=slow, faults=Faults(unavailable_share=0.5), speed=500, cores=(0,))
    with ServerProcesses([one]) as servers:
        began = time.monotonic()
        assert complete(servers.url, tokens=20) == 20
        # Twenty steps of a second.
        assert 0.035 <= time.monotonic() - began < 15
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            complete(servers.url)
        refused.value.close()
        assert os.sched_getaffinity(servers.pids[0]) == {0}


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind() -> None:
    with ServerProcesses([ServerProcess(node=NODE)]) as servers:
        port = int(servers.urls[0].rsplit(":", 1)[1])
        second = ServerProcesses([ServerProcess(node=NODE), ServerProcess(node=NODE, port=port)])
        with pytest.raises(ServerProcessError, match="address already in use"), second:
            pass
        assert second.pids == ()


def test_servers_end_when_the_process_that_started_them_is_killed() -> None:
    program = (
        "import sys, time\n"
        "from lab.simulators.model_server.node import Node, Pace\n"
        "from lab.simulators.model_server.processes import ServerProcess, ServerProcesses\n"
        "with ServerProcesses([ServerProcess(node=Node(model='m', ranks=1, pace=Pace(fixed_s=0.01)))] * 2) as servers:\n"
        "    print(*servers.pids, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert len(pids) == 2
    assert gone_within(15, pids)


def test_no_servers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ServerProcesses([])
