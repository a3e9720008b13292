"""Stands for one rank's vLLM server in the tests of rank_servers.py: a process with a port, GPUs, metrics and an end."""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

OPTIONS = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
PORT = int(OPTIONS["--port"])
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
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"{PORT} ".encode() + body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def stop(*_: object) -> None:
    """Say so, and end."""
    os.write(1, f"stopped {PORT}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Answers).serve_forever()
