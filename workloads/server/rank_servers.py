"""Starts one vLLM server for each rank of a pod, answers for all of them, and ends them together.

Runs in the server's container, standard library only. vLLM's own switch for this, `--data-parallel-multi-port-external-lb`, refuses every
model without experts (0.33.0, engine/arg_utils.py) and has no metrics of the whole pod; docs/decisions/07-server.md gives the reasons.

    rank_servers.py --ranks=8 --status-port=9256 -- vllm serve MODEL --port=8000 --data-parallel-size=8 ...

starts eight servers on the ports 8000 to 8007, each with the GPUs of its rank. The status port answers for all of them: `/health` is
200 while every rank's is, `/metrics` is one page with the label `engine` of each rank, and other requests go to the rank of the header
`X-data-parallel-rank`, to the ranks in turn without one. The status port is for probes and tools, not for load.

With `--prefill=P --router=8000,29000` the first P servers read prompts and the others answer. A router in another container of the pod has
the first of these ports for clients, the second for its metrics, which the page of metrics includes; requests without the header go to it.
At the stop signal decode ends after the router, and prefill after decode. docs/prefill-apart.md describes it.

A rank that ends unasked ends the pod with exit code 1. A vLLM server that has the stop signal answers new requests with 500 at once, and
its `/health` with 200 (0.33.0, seen): so with `--leave=S` the status port is 503 at once, and the other ranks serve for S seconds, until
no balancer sends to the pod any more; only then do they get the signal.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import itertools
import json
import math
import os
import re
import signal
import socket
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
"""Less than a scrape's 10."""
REQUEST_SECONDS = 600.0
END_SECONDS = 10.0
"""From the death of a rank to the kill of the others. vLLM gives its own processes 5 s (launcher.py)."""
TRANSFER_PORT = 5600
"""Port by which the first server tells others where its cache is; each further one has its own. vLLM's default."""
PREFILL, DECODE = "prefill", "decode"
_ROLES = {PREFILL: "kv_producer", DECODE: "kv_consumer"}
"""Names of the roles in vLLM's `--kv-transfer-config`."""
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


def role_of(rank: int, prefill: int) -> str | None:
    """What one rank does, if the first `prefill` ranks read prompts for the others; None where each does both."""
    return None if not prefill else PREFILL if rank < prefill else DECODE


def command_of(rank: int, ranks: int, words: Sequence[str], experts: bool, role: str | None = None) -> list[str]:
    """The command of one rank's server. Ranks of a mixture of experts know one another, others are servers of their own."""
    own = [word for word in words if word.partition("=")[0] not in REPLACED]
    if role is not None:
        own = [_with_role(word, role) for word in own]
    own.append(f"--port={option(words, '--port', 8000) + rank}")
    return [*own, f"--data-parallel-size={ranks}", f"--data-parallel-rank={rank}"] if experts else own


def _with_role(word: str, role: str) -> str:
    name, _, value = word.partition("=")
    if name != "--kv-transfer-config":
        return word
    return f"{name}={json.dumps({**json.loads(value), 'kv_role': _ROLES[role]})}"


def environment_of(rank: int, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of one rank's server: the GPUs of its rank alone, a port of its own for transfers, and a folder of its own for
    compiled graphs, which vLLM names by its number of the rank, 0 in every server of its own (compilation/backends.py).
    """
    each = option(words, "--tensor-parallel-size", 1)
    given = [one for one in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    mine = range(rank * each, (rank + 1) * each)
    visible = [given[number] for number in mine] if given else [str(number) for number in mine]
    root = environment.get("VLLM_CACHE_ROOT")
    own = {"CUDA_VISIBLE_DEVICES": ",".join(visible)} | ({"VLLM_CACHE_ROOT": f"{root}/rank-{rank}"} if root else {})
    if "VLLM_NIXL_SIDE_CHANNEL_HOST" in environment:
        own["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(TRANSFER_PORT + rank)
    return {**environment, **own}


class Ranks:
    """The servers of all ranks, by the options of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        first = option(options.command, "--port", 8000)
        self.ports = tuple(range(first, first + options.ranks))
        self.prefill: int = options.prefill
        self.router: Sequence[int] = options.router
        """Ports of the router's requests and metrics; empty without a router."""
        self.is_ending = False
        """Whether no new requests should come."""
        self._is_stopped = False
        self._drain_seconds, self._leave_seconds = options.drain, options.leave
        self.turn = itertools.count()
        # A session each: what a server leaves behind can be killed with it.
        self._servers = [
            subprocess.Popen(
                command_of(rank, options.ranks, options.command, options.experts, role_of(rank, options.prefill)),
                env=environment_of(rank, options.command, os.environ),
                start_new_session=True,
            )
            for rank in range(options.ranks)
        ]

    def port_of(self, rank: int | None, path: str) -> int:
        """Port of a rank; without one the router's for the API's paths, else the next rank's."""
        # Other paths of the router take its servers in and out.
        if rank is None and self.router and path.startswith("/v1/") and ".." not in path:
            return self.router[0]
        return self.ports[next(self.turn) % len(self.ports) if rank is None else rank]

    def stop(self, *_: object) -> None:
        """Handle the stop signal. It sets only values: a lock could be held by what it interrupts."""
        self.is_ending = self._is_stopped = True

    def wait(self) -> int:
        """Wait until every server has ended. The first that ends unasked ends the others; then the result is 1."""
        prefill, decode = self._servers[: self.prefill], self._servers[self.prefill :]
        self._until(lambda: self._is_stopped or not all(map(_is_alive, self._servers)))
        has_died = not self._is_stopped
        if has_died:
            rank, code = next((rank, one.returncode) for rank, one in enumerate(self._servers) if not _is_alive(one))
            sys.stderr.write(f"rank_servers: rank {rank} ended with {code}; the others end, too\n")
            self.is_ending = True
            self._until(lambda: self._is_stopped or not any(map(_is_alive, decode)), self._leave_seconds)
            _signal(signal.SIGTERM, self._servers)
            # Prefill has nothing to finish for a decode that is gone.
            self._until(lambda: not any(map(_is_alive, decode)), END_SECONDS)
        else:
            # The router still has streams, and decode still fetches from prefill.
            end = time.monotonic() + self._drain_seconds
            self._until(lambda: not self.router or not is_open(self.router[1]), self._drain_seconds)
            _signal(signal.SIGTERM, decode)
            self._until(lambda: not any(map(_is_alive, decode)), end - time.monotonic())
            _signal(signal.SIGTERM, prefill)
            self._until(lambda: not any(map(_is_alive, self._servers)))
        _signal(signal.SIGKILL, self._servers, groups=True)
        return int(has_died)

    def _until(self, is_met: Callable[[], bool], seconds: float = math.inf) -> None:
        """Wait for a condition, at most so long."""
        end = time.monotonic() + seconds
        while not is_met() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            reap([server.pid for server in self._servers])


def _is_alive(server: subprocess.Popen[bytes]) -> bool:
    return server.poll() is None


def _signal(number: int, servers: Sequence[subprocess.Popen[bytes]], *, groups: bool = False) -> None:
    for server in servers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if groups:
                os.killpg(server.pid, number)
            elif _is_alive(server):
                os.kill(server.pid, number)


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


def is_open(port: int) -> bool:
    """Whether a program of this pod listens on the port."""
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS, port), timeout=1):
        return True
    return False


def ask(port: int, path: str, seconds: float) -> tuple[int, str]:
    """Status and body of one rank's answer; 0 without one."""
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=seconds)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    return 0, ""


def ask_all(ports: Sequence[int], path: str, seconds: float) -> list[tuple[int, str]]:
    """The answers of all ranks, asked at the same time."""
    with ThreadPoolExecutor(max_workers=len(ports)) as threads:
        return list(threads.map(lambda port: ask(port, path, seconds), ports))


def merged(pages: Sequence[str], prefill: int = 0) -> str:
    """One page of metrics of all ranks, whose samples have the label `engine` with the rank, and `role` if they have one; each family
    once.
    """
    families: dict[str, list[str]] = {}
    told: set[tuple[str, str]] = set()
    for rank, page in enumerate(pages):
        role = role_of(rank, prefill)
        name = ""
        for line in page.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                _, kind, name = line.split(" ", 3)[:3]
                lines = families.setdefault(name, [])
                if (kind, name) not in told:
                    told.add((kind, name))
                    lines.append(line)
            elif line and not line.startswith("#"):
                families.setdefault(name, []).append(of_rank(line, rank, role))
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def of_rank(line: str, rank: int, role: str | None = None) -> str:
    """A sample with the label `engine` of its rank, and `role`."""
    sample = SAMPLE.fullmatch(line)
    if sample is None:
        return line
    mine, labels = f'engine="{rank}"', sample["labels"] or ""
    labels, found = ENGINE.subn(lambda match: match[1] + mine, labels)
    if not found:
        labels = f"{labels},{mine}" if labels else mine
    if role is not None:
        labels += f',role="{role}"'
    return f"{sample['name']}{{{labels}}}{sample['rest']}"


def status_handler(ranks: Ranks) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers for all ranks."""

    class Status(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/health":
                self._say(200 if self._is_healthy() else 503, "text/plain", "")
            elif path == "/metrics":
                self._say(*self._metrics())
            else:
                self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def log_message(self, *_: Any) -> None:
            """Not logged: a line for every probe."""

        def _say(self, status: int, kind: str, body: str) -> None:
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _is_healthy(self) -> bool:
            answers = [] if ranks.is_ending else ask_all(ranks.ports, "/health", HEALTH_SECONDS)
            return bool(answers) and all(status == 200 for status, _ in answers)

        def _metrics(self) -> tuple[int, str, str]:
            answers = ask_all(ranks.ports, "/metrics", METRICS_SECONDS)
            if missing := ", ".join(str(rank) for rank, (status, _) in enumerate(answers) if status != 200):
                return 503, "text/plain", f"no metrics of rank {missing}\n"
            page = merged([page for _, page in answers], ranks.prefill)
            if ranks.router:
                page += ask(ranks.router[1], "/metrics", METRICS_SECONDS)[1]
            return 200, "text/plain; version=0.0.4; charset=utf-8", page

        def _pass_on(self) -> None:
            rank = self.headers.get(RANK_HEADER)
            if rank is not None and (not rank.isdecimal() or int(rank) >= len(ranks.ports)):
                self.send_error(400, f"{RANK_HEADER} is 0 to {len(ranks.ports) - 1}")
                return
            port = ranks.port_of(None if rank is None else int(rank), self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
            connection = http.client.HTTPConnection(ADDRESS, port, timeout=REQUEST_SECONDS)
            with contextlib.closing(connection):
                try:
                    connection.request(self.command, self.path, body=body or None, headers=headers)
                    answer = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    self.send_error(502, f"port {port} does not answer")
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
                self.end_headers()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while part := answer.read1(65536):
                        self.wfile.write(part)

    return Status


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="rank_servers")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--status-port", type=int, required=True)
    parser.add_argument("--experts", action="store_true", help="the ranks share experts")
    parser.add_argument(
        "--prefill", type=int, default=0, help="that many ranks, the first, read prompts for the others"
    )
    parser.add_argument("--router", type=_ports, default=(), help="the router's ports of requests and of metrics")
    parser.add_argument("--drain", type=float, default=0.0, help="seconds that the router has after the stop signal")
    parser.add_argument("--leave", type=float, default=0.0, help="seconds that the others serve after a rank's death")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and the command of a server of all ranks")
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    return options


def _ports(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def main() -> int:
    """Serve until a rank dies or the pod is stopped."""
    options = options_of()
    ranks = Ranks(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ranks.stop)
    status = http.server.ThreadingHTTPServer(("", options.status_port), status_handler(ranks))
    threading.Thread(target=status.serve_forever, name="status", daemon=True).start()
    return ranks.wait()


if __name__ == "__main__":
    raise SystemExit(main())
