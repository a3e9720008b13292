"""Serves each rank of a pod on a port of its own: starts one vLLM server per rank and ends all of them together.

Runs in the server's container, standard library only. vLLM's own switch for this, `--data-parallel-multi-port-external-lb`, refuses every
model without experts (0.33.0, engine/arg_utils.py) and has no metrics of the whole pod; docs/decisions/07-server.md gives the reasons.

    rank_servers.py --ranks=8 --status-port=9256 -- vllm serve MODEL --port=8000 --data-parallel-size=8 ...

starts eight servers on the ports 8000 to 8007, each with the GPUs of its rank. The status port answers for all of them: `/health` and
`/readyz` are 200 while every rank's `/health` is, `/metrics` is one page with the label `engine` of each rank, and other requests go to
the rank of the header `X-data-parallel-rank`, to the ranks in turn without one. The status port is for probes and tools, not for load.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HEALTH_SECONDS = 8.0
"""For the slowest rank's /health: less than the probes' 10 s, so that they get an answer."""
METRICS_SECONDS = 4.0
"""Less than the heartbeat's 5 s and a scrape's 10."""
REQUEST_SECONDS = 600.0
END_SECONDS = 10.0
"""From the death of a rank to the kill of the others. vLLM gives its own processes 5 s (launcher.py)."""
POLL_SECONDS = 0.2
RANK_HEADER = "X-data-parallel-rank"
ADDRESS = "127.0.0.1"
SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?(?P<rest> .*)")
ENGINE = re.compile(r'(^|,)engine="[^"]*"')
PASSED_ON = ("Authorization", "Content-Type", "Accept")
REPLACED = ("--data-parallel-size", "--api-server-count", "--port")
"""Options of the whole pod, which a rank gets otherwise or not at all."""


def option(words: Sequence[str], name: str, default: int) -> int:
    """A number among options of the form `--name=value`."""
    given = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return int(given[-1]) if given else default


def command_of(rank: int, ranks: int, words: Sequence[str], experts: bool) -> list[str]:
    """The command of one rank's server. Ranks of a mixture of experts know one another, others are servers of their own."""
    own = [word for word in words if word.partition("=")[0] not in REPLACED]
    own.append(f"--port={option(words, '--port', 8000) + rank}")
    return [*own, f"--data-parallel-size={ranks}", f"--data-parallel-rank={rank}"] if experts else own


def environment_of(rank: int, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of one rank's server: the GPUs of its rank alone, and a folder of its own for compiled graphs, which vLLM names by
    its number of the rank, 0 in every server of its own (compilation/backends.py).
    """
    each = option(words, "--tensor-parallel-size", 1)
    given = [one for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    mine = range(rank * each, (rank + 1) * each)
    visible = [given[number] for number in mine] if given else [str(number) for number in mine]
    root = environment.get("VLLM_CACHE_ROOT")
    own = {"CUDA_VISIBLE_DEVICES": ",".join(visible)} | ({"VLLM_CACHE_ROOT": f"{root}/rank-{rank}"} if root else {})
    return {**environment, **own}


class Ranks:
    """The servers of all ranks."""

    def __init__(self, commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], ports: Sequence[int]) -> None:
        self.ports = tuple(ports)
        self.is_stopping = False
        self.turn = itertools.count()
        self._wake = threading.Event()
        # A session each: what a server leaves behind can be killed with it.
        self._servers = [
            subprocess.Popen(list(command), env=dict(environment), start_new_session=True)
            for command, environment in commands
        ]

    def stop(self, *_: object) -> None:
        """Forward the stop signal once; each server finishes its requests by its own `--shutdown-timeout`."""
        if not self.is_stopping:
            self.is_stopping = True
            self._signal(signal.SIGTERM)
        self._wake.set()

    def wait(self) -> int:
        """Wait until every server has ended. The first that ends unasked ends the others; then the result is 1."""
        code, kill_at = 0, float("inf")
        while any(self._is_alive(server) for server in self._servers):
            if not self.is_stopping and (ended := [one for one in self._servers if not self._is_alive(one)]):
                rank = self._servers.index(ended[0])
                sys.stderr.write(f"rank_servers: rank {rank} ended with {ended[0].returncode}; the others end, too\n")
                code, kill_at = 1, time.monotonic() + END_SECONDS
                self.stop()
            if time.monotonic() >= kill_at:
                self._signal(signal.SIGKILL, groups=True)
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            reap([server.pid for server in self._servers])
        self._signal(signal.SIGKILL, groups=True)
        return code

    def _signal(self, number: int, *, groups: bool = False) -> None:
        for server in self._servers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if groups:
                    os.killpg(server.pid, number)
                elif self._is_alive(server):
                    os.kill(server.pid, number)

    @staticmethod
    def _is_alive(server: subprocess.Popen[bytes]) -> bool:
        return server.poll() is None


def reap(servers: Sequence[int]) -> None:
    """Take the exit codes of orphans, which fall to the container's first process. Servers are waited for elsewhere."""
    if os.getpid() != 1:
        return
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or int(process.name) in servers:
            continue
        with contextlib.suppress(OSError, ValueError):
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if (state, parent) == ("Z", "1"):
                os.waitpid(int(process.name), os.WNOHANG)


def ask(port: int, path: str, seconds: float, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Status and body of one rank's answer; 0 without one."""
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=seconds)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    return 0, ""


def ask_all(ports: Sequence[int], path: str, seconds: float) -> list[tuple[int, str]]:
    """The answers of all ranks, asked at the same time."""
    with ThreadPoolExecutor(max_workers=len(ports)) as threads:
        return list(threads.map(lambda port: ask(port, path, seconds), ports))


def merged(pages: Sequence[str]) -> str:
    """One page of metrics of all ranks, whose samples have the label `engine` with the rank; each family once."""
    families: dict[str, list[str]] = {}
    told: set[tuple[str, str]] = set()
    for rank, page in enumerate(pages):
        name = ""
        for line in page.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                _, kind, name = line.split(" ", 3)[:3]
                lines = families.setdefault(name, [])
                if (kind, name) not in told:
                    told.add((kind, name))
                    lines.append(line)
            elif line and not line.startswith("#"):
                families.setdefault(name, []).append(of_rank(line, rank))
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def of_rank(line: str, rank: int) -> str:
    """A sample with the label `engine` of its rank."""
    sample = SAMPLE.fullmatch(line)
    if sample is None:
        return line
    mine, labels = f'engine="{rank}"', sample["labels"] or ""
    labels, found = ENGINE.subn(lambda match: match[1] + mine, labels)
    if not found:
        labels = f"{labels},{mine}" if labels else mine
    return f"{sample['name']}{{{labels}}}{sample['rest']}"


def status_handler(ranks: Ranks) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers for all ranks."""

    class Status(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer: Callable[[], tuple[int, str, str]] | None = {
                "/health": self._health,
                "/ready": self._health,
                "/readyz": self._health,
                "/metrics": self._metrics,
                "/is_paused": self._is_paused,
            }.get(path)
            if answer is None:
                self._pass_on()
                return
            status, kind, body = answer()
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self._pass_on()

        def log_message(self, *_: Any) -> None:
            """Not logged: a line for every probe."""

        def _health(self) -> tuple[int, str, str]:
            told = [] if ranks.is_stopping else ask_all(ranks.ports, "/health", HEALTH_SECONDS)
            is_well = bool(told) and all(status == 200 for status, _ in told)
            return 200 if is_well else 503, "text/plain", ""

        def _metrics(self) -> tuple[int, str, str]:
            told = ask_all(ranks.ports, "/metrics", METRICS_SECONDS)
            if not all(status == 200 for status, _ in told):
                missing = ", ".join(str(rank) for rank, (status, _) in enumerate(told) if status != 200)
                return 503, "text/plain", f"no metrics of rank {missing}\n"
            return 200, "text/plain; version=0.0.4; charset=utf-8", merged([page for _, page in told])

        def _is_paused(self) -> tuple[int, str, str]:
            told = [body for status, body in ask_all(ranks.ports, "/is_paused", METRICS_SECONDS) if status == 200]
            paused = any(says_paused(body) for body in told)
            return 200 if told else 404, "application/json", json.dumps({"is_paused": paused})

        def _pass_on(self) -> None:
            rank = self.headers.get(RANK_HEADER) or str(next(ranks.turn) % len(ranks.ports))
            if not rank.isdecimal() or int(rank) >= len(ranks.ports):
                self.send_error(400, f"{RANK_HEADER} is 0 to {len(ranks.ports) - 1}")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
            connection = http.client.HTTPConnection(ADDRESS, ranks.ports[int(rank)], timeout=REQUEST_SECONDS)
            with contextlib.closing(connection):
                try:
                    connection.request(self.command, self.path, body=body or None, headers=headers)
                    answer = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    self.send_error(502, f"rank {rank} does not answer")
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
                self.end_headers()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while part := answer.read1(65536):
                        self.wfile.write(part)

    return Status


def says_paused(body: str) -> bool:
    """Whether an answer of /is_paused says so."""
    try:
        return json.loads(body).get("is_paused") is True
    except (ValueError, AttributeError):
        return False


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="rank_servers")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--status-port", type=int, required=True)
    parser.add_argument("--experts", action="store_true", help="the ranks share experts")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and the command of a server of all ranks")
    return parser.parse_args(arguments)


def main() -> int:
    """Serve until a rank dies or the pod is stopped."""
    options = options_of()
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    first = option(words, "--port", 8000)
    commands = [
        (command_of(rank, options.ranks, words, options.experts), environment_of(rank, words, os.environ))
        for rank in range(options.ranks)
    ]
    ranks = Ranks(commands, range(first, first + options.ranks))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ranks.stop)
    status = http.server.ThreadingHTTPServer(("", options.status_port), status_handler(ranks))
    threading.Thread(target=status.serve_forever, name="status", daemon=True).start()
    return ranks.wait()


if __name__ == "__main__":
    raise SystemExit(main())
