"""A program that runs here as in a pod sees simulated time and the cluster's names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from lab.simulators.local_server import Answer, Request, served
from lab.stage import inside_pod

SPEED = 1000.0
PROGRAM = """
import json, queue, socket, threading, time
began, told = time.monotonic(), {"epoch": time.time()}
time.sleep(20)
threading.Event().wait(20)
condition = threading.Condition()
with condition:
    condition.wait_for(lambda: False, 20)
try:
    queue.Queue().get(timeout=20)
except queue.Empty:
    pass
told["waited"] = time.monotonic() - began
told["later"] = time.time() - told["epoch"]
told["servers"] = [found[4] for found in socket.getaddrinfo("servers.fleet.svc.cluster.local", 8000)]
told["elsewhere"] = [found[4] for found in socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)]
try:
    socket.create_connection(("none.fleet.svc.cluster.local", 8000))
except socket.gaierror as error:
    told["none"] = error.errno == socket.EAI_NONAME
one = socket.socket()
told["timeouts"] = []
for seconds in (None, 0.0, 10.0, 1e6):
    one.settimeout(seconds)
    told["timeouts"].append(one.gettimeout())
print(json.dumps(told))
"""


def test_time_runs_faster_and_names_lead_to_this_machine(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(Path(inside_pod.__file__).read_text(encoding="utf-8"), encoding="utf-8")

    def resolve(request: Request) -> Answer:
        known = request.path == "/servers.fleet.svc.cluster.local:8000"
        return Answer.of_json(200, [["127.0.0.2", 9000], ["127.0.0.3", 9001]] if known else [])

    with served(resolve) as port:
        environment = {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "REHEARSAL_SPEED": str(SPEED),
            "REHEARSAL_MONOTONIC": str(time.monotonic()),
            "REHEARSAL_EPOCH": "1000000000",
            "REHEARSAL_NAMES": f"127.0.0.1:{port}",
        }
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
    told = json.loads(ran.stdout)
    assert told["waited"] >= 80
    assert told["later"] >= 80
    assert told["epoch"] > 1_000_000_000
    assert told["servers"] == [["127.0.0.2", 9000], ["127.0.0.3", 9001]]
    assert told["elsewhere"] == [["127.0.0.1", 80]]
    assert told["none"] is True
    assert told["timeouts"] == [None, 0.0, 2.0, 1000.0]
