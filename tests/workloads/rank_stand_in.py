"""Stands for one rank's vLLM server in the tests of rank_servers.py: a process with a port, GPUs, metrics and an end.

The end is that of vLLM 0.33.0: after the stop signal it finishes what it has, its health stays 200, and new requests get 500 at once.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

OPTIONS = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
PORT = int(OPTIONS["--port"])
STOPPED = threading.Event()
RUNNING: list[object] = []
SECONDS_AFTER_STOP = 1.0
PAGE = f"""# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m, {{x}}"}} {PORT}.0
# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{{handler="/v1",status="2xx"}} 5.0
process_start_time_seconds 1.0
"""


class Answers(http.server.BaseHTTPRequestHandler):
    """Says who it is."""

    def do_GET(self) -> None:
        told = {"port": PORT, "gpus": os.environ["CUDA_VISIBLE_DEVICES"], "words": sys.argv[1:]}
        told["key"] = self.headers.get("Authorization", "")
        said = {"/health": "", "/metrics": PAGE, "/who": json.dumps(told)}.get(self.path)
        sick = Path(f"{os.environ['SICK']}{PORT}").exists()
        self.send_response(404 if said is None else 503 if sick else 200)
        self.end_headers()
        self.wfile.write((said or "").encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if body == b"end":
            os._exit(0)
        self.send_response(500 if STOPPED.is_set() else 200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"{PORT} ".encode() + body)
        if body == b"long" and not STOPPED.is_set():
            RUNNING.append(self)
            STOPPED.wait()
            time.sleep(SECONDS_AFTER_STOP)
            self.wfile.write(b" whole")
            RUNNING.remove(self)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def stop(*_: object) -> None:
    """Finish, say so, and end."""
    STOPPED.set()
    threading.Thread(target=end).start()


def end() -> None:
    while RUNNING:
        time.sleep(0.01)
    os.write(1, f"stopped {PORT}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Answers).serve_forever()
