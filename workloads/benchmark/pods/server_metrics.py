"""Read a vLLM server's /metrics."""

from __future__ import annotations

import http.client
import re
import socket
from dataclasses import dataclass, field

KEPT = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:estimated_flops_per_gpu_total",
    "vllm:estimated_read_bytes_per_gpu_total",
    "vllm:estimated_write_bytes_per_gpu_total",
)
"""Metrics that are kept. Source: vllm/v1/metrics/loggers.py, v1/spec_decode/metrics.py and v1/metrics/perf.py, 0.18.1."""
INFO = "vllm:cache_config_info"
RUNNING, WAITING = KEPT[:2]
_STARTS = tuple(f"{name}{{".encode() for name in (*KEPT, INFO))
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\}\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class ScrapeError(Exception):
    """A reading failed; the message has the reason."""


@dataclass(frozen=True)
class Reading:
    """The kept part of one page."""

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metric -> engine -> value. A series with further labels is named `metric{label=value}`."""
    info: dict[str, str] | None = None
    """Labels of the cache's configuration, of the first engine on the page."""

    @property
    def in_flight(self) -> float:
        """Running and waiting requests of all engines."""
        return sum(sum(self.values.get(name, {}).values()) for name in (RUNNING, WAITING))


def parse(page: bytes) -> Reading:
    """The kept series of a page in the Prometheus text format.

    Of a page with the histograms of eight engines two lines in a hundred are kept, so lines are chosen as bytes before any is
    read. Lines that are not of the format are passed over.
    """
    values: dict[str, dict[str, float]] = {}
    info: dict[str, str] | None = None
    for line in page.split(b"\n"):
        if not line.startswith(_STARTS):
            continue
        match = _SERIES.match(line.decode("utf-8", errors="replace"))
        if match is None:
            continue
        name, inside, value = match.groups()
        labels = {label: _unescape(text) for label, text in _LABEL.findall(inside)}
        labels.pop("model_name", None)
        engine = labels.pop("engine", "0")
        # With prefill apart each request is counted on both sides, and ends on decode's.
        if labels.pop("role", "decode") == "prefill":
            continue
        if name == INFO:
            info = info or labels
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if labels:
            name += "{" + ",".join(f"{label}={text}" for label, text in sorted(labels.items())) + "}"
        of_metric = values.setdefault(name, {})
        # An engine with several API servers has a series of each; counters and queues are summed.
        of_metric[engine] = of_metric.get(engine, 0.0) + number
    return Reading(values, info)


def _unescape(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda match: _ESCAPES[match.group()], text) if "\\" in text else text


@dataclass
class Server:
    """One server, read over one connection."""

    host: str
    port: int
    timeout_seconds: float = 5.0
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Address as text; an IPv6 address stands in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def read(self) -> Reading:
        """One reading. Raises ScrapeError."""
        while True:
            kept_open = self._connection is not None
            try:
                return self._ask()
            except _CLOSED as error:
                self.close()
                # A server may close a kept connection; only a closed new one is a failure.
                if not kept_open:
                    raise ScrapeError(f"connection closed: {error}") from None

    def _ask(self) -> Reading:
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_seconds)
            self._connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
            response = self._connection.getresponse()
            page = response.read()
        except _CLOSED:
            raise
        except TimeoutError:
            self.close()
            raise ScrapeError(f"no answer within {self.timeout_seconds:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ScrapeError(str(error) or type(error).__name__) from None
        if response.status != 200:
            raise ScrapeError(f"HTTP {response.status}")
        return parse(page)

    def close(self) -> None:
        """Drop the connection; the next reading opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def split_address(text: str) -> list[tuple[str, int]]:
    """`HOST:PORT`, or several of them with commas. Raises ValueError with what is allowed."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part.strip()!r} is not HOST:PORT, for example servers.namespace.svc.cluster.local:8000")
        found.append((host.strip("[]"), int(port)))
    return found


def resolve(hosts: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Every address behind the names, sorted. Raises ScrapeError when a name has none."""
    found: set[tuple[str, int]] = set()
    for host, port in hosts:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ScrapeError(f"{host} has no address: {error}") from None
        found.update((str(answer[4][0]), port) for answer in answers)
    return sorted(found)


def in_flight(hosts: list[tuple[str, int]], timeout_seconds: float = 5.0) -> float:
    """Running and waiting requests of all servers. Raises ScrapeError when one of them cannot be read."""
    total = 0.0
    for host, port in resolve(hosts):
        server = Server(host, port, timeout_seconds)
        try:
            total += server.read().in_flight
        except ScrapeError as error:
            raise ScrapeError(f"{server.name}: {error}") from None
        finally:
            server.close()
    return total
