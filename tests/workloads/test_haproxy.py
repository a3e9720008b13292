"""HAProxy's configuration, read and run by HAProxy itself before servers that answer."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settings.sections.endpoint import Router as Section
from tests.support.haproxy_on_loopback import on_loopback
from tests.support.nameserver import nameserver
from tests.support.waiting import until
from workloads.router import haproxy
from workloads.router.haproxy import BACKEND, DOMAIN_VARIABLE, Haproxy, config

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("haproxy") is None,
    reason="haproxy is not installed (apt-get install haproxy)",
)
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    DOMAIN_VARIABLE: "vllm.svc.cluster.local",
}
BODY = json.dumps({"prompt": "p"})


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "max_servers": draw(st.integers(1, 60)),
        "ports": tuple(draw(st.lists(st.integers(8000, 8007), min_size=1, max_size=8, unique=True))),
        "router": Section(cpu=draw(st.integers(1, 28)), memory_gib=1),
        "max_in_flight": draw(st.integers(1, 1_000_000)),
        "v1_only": draw(st.booleans()),
        "checks_key": draw(st.booleans()),
        "has_pod_router": draw(st.booleans()),
    }


def checked(text: str, folder: Path) -> None:
    file = folder / "haproxy.cfg"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr


@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
@given(given_=arguments())
def test_haproxy_accepts_every_configuration(tmp_path_factory: pytest.TempPathFactory, given_: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("haproxy")
    (folder / "key").write_text("a-key")
    checks_key = given_.pop("checks_key")
    checked(config(Haproxy(key_file=str(folder / "key") if checks_key else None, **given_)), folder)


class Server:
    """A model server that keeps what it is sent."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.dies = False
        self.streams = False
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, b"{}")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                outer.seen.append((self.path, self.headers.get("authorization")))
                if outer.dies:
                    self.close_connection = True
                    return
                if not outer.streams:
                    outer.go_on.wait(10)
                self._answer(outer.status, b'{"address": "10.0.0.7"}')

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if outer.streams and self.command == "POST":
                    outer.go_on.wait(10)
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """HAProxy resets the connections of its health checks."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self._http.shutdown()
        self._http.server_close()


class Router:
    """A running HAProxy."""

    def __init__(self, folder: Path, servers: list[int], **given: Any) -> None:
        ports = self.port, self.metrics_port, _ = free_ports(3)
        values: dict[str, Any] = {"router": Section(cpu=1), "max_in_flight": 2, **given}
        with mock.patch.multiple(haproxy, MOST_QUEUED=2, QUEUE_SECONDS=5, ROUTER_DRAIN_SECONDS=10):
            text = config(Haproxy(max_servers=1, **values))
        checked(on_loopback(text, ports, [f"127.0.0.1:{port}" for port in servers]), folder)
        command = ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT)

    def ask(
        self,
        path: str = "/v1/completions",
        key: str | None = None,
        method: str = "POST",
        body: str = BODY,
    ) -> tuple[int, dict[str, str], str]:
        headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request(method, path, body if method == "POST" else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text

    def metrics(self) -> str:
        return fetched(self.metrics_port, "/metrics")


def fetched(port: int, path: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def free_ports(number: int) -> list[int]:
    taken = [socket.socket() for _ in range(number)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


@contextmanager
def routed(folder: Path, servers: int = 1, **given: Any) -> Iterator[tuple[Router, list[Server]]]:
    made = [Server() for _ in range(servers)]
    router = Router(folder, [one.port for one in made], **given)
    try:
        until(lambda: router.ask("/health", method="GET")[0] == 200)
        yield router, made
    finally:
        router.process.kill()
        router.process.wait()
        for one in made:
            one.close()


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def asked(router: Router, number: int) -> tuple[list[threading.Thread], list[int]]:
    """So many requests at once, and the status of each that is answered."""
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(router.ask()[0])) for _ in range(number)]
    for one in threads:
        one.start()
    return threads, statuses


def test_requests_go_to_the_server_with_the_fewest_and_those_too_many_are_told_to_wait(tmp_path: Path) -> None:
    with routed(tmp_path, servers=2) as (router, servers):
        for one in servers:
            one.go_on.clear()
        threads, statuses = asked(router, 4)  # two at each server
        until(lambda: [len(one.seen) for one in servers] == [2, 2])
        waiting, _ = asked(router, 2)
        until(lambda: 'haproxy_backend_current_queue{proxy="servers"} 2' in router.metrics())
        status, headers, text = router.ask()
        assert (status, headers["retry-after"]) == (429, "1")
        assert json.loads(text)["error"]["type"] == "rate_limit_error"
        for one in servers:
            one.go_on.set()
        for thread in (*threads, *waiting):
            thread.join()
        assert statuses == [200] * 4


def test_a_generation_is_never_repeated_and_an_error_names_no_address(tmp_path: Path) -> None:
    with routed(tmp_path, servers=2) as (router, servers):
        for one in servers:
            one.dies = True
        status, _, text = router.ask()
        assert status == 502
        assert "127.0.0.1" not in text
        assert sum(len(one.seen) for one in servers) == 1


def test_a_server_that_refuses_connections_costs_no_request(tmp_path: Path) -> None:
    with routed(tmp_path, servers=2) as (router, servers):
        servers[0].close()
        assert {router.ask()[0] for _ in range(6)} == {200}


def test_ranks_that_die_together_attract_no_requests(tmp_path: Path) -> None:
    with routed(tmp_path, servers=12) as (router, servers):
        # Held streams: those with none are the dead ones, and the fewest is none.
        for one in servers:
            one.go_on.clear()
        threads, _ = asked(router, 12)
        until(lambda: [len(one.seen) for one in servers] == [1] * 12)
        for one in servers[:8]:
            one.close()
            one.go_on.set()
        for one in servers[8:]:
            one.go_on.set()
        for thread in threads:
            thread.join()
        statuses = [router.ask()[0] for _ in range(24)]
        # The first requests find the dead ranks, four each, and every rank is found three times.
        assert statuses.count(503) <= 8 * 3 / 4
        assert set(statuses) == {200, 503}


@pytest.mark.parametrize("has_pod_router", [False, True], ids=["server", "split pod"])
def test_a_server_that_answers_errors_at_once_attracts_few_requests(tmp_path: Path, has_pod_router: bool) -> None:
    """Its health is 200, and it has the fewest requests."""
    with routed(tmp_path, servers=2, has_pod_router=has_pod_router, max_in_flight=50) as (router, (broken, busy)):
        broken.go_on.clear()
        busy.go_on.clear()
        threads, _ = asked(router, 2)
        until(lambda: [len(broken.seen), len(busy.seen)] == [1, 1])
        broken.status = 500
        broken.go_on.set()
        for number in range(24):
            threads += asked(router, 1)[0]
            until(lambda sent=number + 3: len(broken.seen) + len(busy.seen) == sent)
        busy.go_on.set()
        for thread in threads:
            thread.join()
        assert len(broken.seen) < 12  # three in a row, until the next check of its health after two seconds


def test_bodies_of_failures_are_hidden_where_they_contain_addresses(tmp_path: Path) -> None:
    with routed(tmp_path, has_pod_router=True) as (router, (server,)):
        for given, answered in ((422, 422), (500, 502), (502, 502), (503, 503)):
            server.status = given
            status, _, text = router.ask()
            assert status == answered
            assert ("10.0.0.7" in text) == (given == 422)


def test_with_prefill_apart_a_request_has_one_prompt_and_one_answer(tmp_path: Path) -> None:
    long = "word " * 20_000
    with routed(tmp_path, has_pod_router=True, v1_only=True) as (router, (server,)):
        for several in (
            {"prompt": ["hi", "ho"]},
            {"prompt": ["hi"]},
            {"prompt": [[1, 2], [3]]},
            {"prompt": "hi", "n": 2},
            {"prompt": "hi", "n": 12},
            {"prompt": "hi", "n": "2"},
            {"n": 2, "prompt": long},
        ):
            status, _, text = router.ask(body=json.dumps(several))
            error = json.loads(text)["error"]
            assert (status, error["type"]) == (400, "invalid_request_error"), several
            assert "list" in error["message"]
        assert server.seen == []
        for one in (
            {"prompt": "hi", "n": 1},
            {"prompt": [1, 2, 3]},
            {"prompt": 'say {"n": 2, "prompt": ["a", "b"]}'},
            {"prompt": long},
        ):
            assert router.ask(body=json.dumps(one))[0] == 200, one
    with routed(tmp_path) as (router, _):
        assert router.ask(body=json.dumps({"prompt": ["hi", "ho"], "n": 2}))[0] == 200


def test_only_paths_under_v1_are_served_where_only_they_are_guarded(tmp_path: Path) -> None:
    with routed(tmp_path, v1_only=True) as (router, (server,)):
        for path in (
            "/metrics",
            "/invocations",
            "/add_worker",
            "/v1",
            "/v1/../metrics",
            "/v1/%2e%2e/metrics",
            "/v1/%2E./x",
        ):
            assert router.ask(path)[0] == 404, path
        assert server.seen == []
        assert router.ask()[0] == 200


def test_a_key_is_checked_against_its_file_and_an_empty_file_admits_nobody(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("right\n")
    with routed(tmp_path, key_file=str(key)) as (router, (server,)):
        for wrong in (None, "wrong", "righ", "rightt", "Right", ""):
            status, headers, _ = router.ask(key=wrong)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert router.ask(key="right")[0] == 200
        assert server.seen == [("/v1/completions", "Bearer right")]
    key.write_text("")
    with routed(tmp_path, key_file=str(key)) as (router, _):
        assert {router.ask(key=one)[0] for one in (None, "")} == {401}


def test_each_port_of_a_server_is_a_target_though_all_have_one_address(tmp_path: Path) -> None:
    """HAProxy gives an address to one server of each name."""
    servers = [Server(), Server()]
    ports = _, metrics, _ = free_ports(3)
    made = Haproxy(max_servers=3, ports=(servers[0].port, servers[1].port), max_in_flight=10)
    with nameserver(["127.0.0.1"]) as known:
        file = tmp_path / "haproxy.cfg"
        file.write_text(on_loopback(config(made), ports).replace("parse-resolv-conf", f"nameserver here {known}"))
        with subprocess.Popen(["haproxy", "-db", "-f", str(file)], env=ENVIRONMENT) as process:
            try:
                up = f'haproxy_backend_active_servers{{proxy="{BACKEND}"}} 2'
                until(lambda: up in fetched(metrics, "/metrics"))
            finally:
                process.kill()
                for one in servers:
                    one.close()


def test_a_stopping_router_finishes_its_streams_and_what_comes_on_their_connections_and_accepts_no_other(
    tmp_path: Path,
) -> None:
    with routed(tmp_path) as (router, (server,)):
        server.streams = True
        server.go_on.clear()
        with closing(http.client.HTTPConnection("127.0.0.1", router.port, timeout=10)) as kept:
            kept.request("POST", "/v1/completions", BODY)
            stream = kept.getresponse()  # its head, which promises to keep the connection
            router.process.send_signal(10)  # SIGUSR1, the image's stop signal
            until(lambda: refuses(router.port))
            server.go_on.set()
            stream.read()
            kept.request("POST", "/v1/completions", BODY)
            again = kept.getresponse()
            assert (again.status, again.getheader("connection")) == (200, "close")
        assert router.process.wait(10) == 0
