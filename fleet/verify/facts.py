"""Data read from a running stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.clients.metrics_text import MetricsText

if TYPE_CHECKING:
    from fleet.verify.host_name import HostName

Manifest = Mapping[str, Any]
OUT_OF_TIME: Final = "the command's timeout expired"
LATE: Final = "no answer within"
"""Start of the message for a request that timed out; seconds follow."""
NAME_UNKNOWN: Final = "its name cannot be resolved"
NOT_HTTP: Final = "the response is not HTTP"
TLS_FAILED: Final = "TLS failed"
"""Start of the message; the library's text follows."""


def is_late(trouble: str) -> bool:
    """Whether the request timed out: a busy server, or a late request."""
    return trouble == OUT_OF_TIME or trouble.startswith(LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One address."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The response to one request."""

    status: int | None = None
    """None without a response; `trouble` gives the reason."""
    body: Any = None
    """Parsed JSON, or text."""
    trouble: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the status is 200."""
        return self.status == 200

    @property
    def late(self) -> bool:
        """Whether it timed out."""
        return is_late(self.trouble)

    @property
    def summary(self) -> str:
        """Short text of the response."""
        return self.trouble if self.status is None else f"HTTP {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One chat completion, complete or streamed."""

    stream: bool
    thinking: bool | None
    """Requested thinking mode; None for the server's default."""
    asked_tokens: int
    status: int | None = None
    trouble: str = ""
    content: str = ""
    reasoning: str = ""
    finish: str | None = None
    """The finish reason; None if the answer did not end."""
    usage: Mapping[str, Any] | None = None
    chunks: int = 0
    """Chunks with text."""
    seconds: float = 0.0

    @property
    def spoke(self) -> bool:
        """Whether there is any text."""
        return bool(self.content or self.reasoning)

    @property
    def late(self) -> bool:
        """Whether it timed out before the end."""
        return is_late(self.trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Short parallel requests, with counters before and after."""

    asked: int
    answered: int
    troubles: tuple[str, ...]
    """Distinct errors, most frequent first."""
    seconds: float
    before: MetricsText | None
    after: MetricsText | None
    late: int = 0
    """Requests without an answer or error at the burst's timeout."""
    cut_short: bool = False
    """Whether the command's timeout expired before the burst's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """A long prompt sent twice, with counters before and after."""

    where: str
    prompt_tokens: int
    first: Reply
    second: Reply
    before: MetricsText | None
    after: MetricsText | None


Moment = Literal["alone", "under load", "asked again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The reply to the standing question."""

    where: str
    rank: int | None
    """The engine; None where the server chose it."""
    moment: Moment
    reply: Reply

    @property
    def name(self) -> str:
        """Engine and moment."""
        return self.moment if self.rank is None else f"rank {self.rank} {self.moment}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One queried address: a pod through its tunnel, or the endpoint."""

    name: str
    health: Reply
    models: Reply = field(default_factory=Reply)
    models_without_key: Reply | None = None
    """Only if the stack protects /v1."""
    version: Reply = field(default_factory=Reply)
    metrics: MetricsText | None = None
    metrics_trouble: str = ""
    logged_kv_tokens: tuple[int, ...] = ()
    """Each engine's cache size from the pod's log, if the metrics do not have it."""
    burst: Burst | None = None

    @property
    def answers(self) -> bool:
        """Whether it is ready."""
        return self.health.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A server pod in the cluster."""

    name: str
    node: str
    ready: bool
    going: bool
    """Whether it is being deleted."""
    why_not_ready: str
    image: str
    args: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """Environment variables of the server's container; None for a value by reference, such as a Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterPod:
    """A router's pod in the cluster."""

    name: str
    ready: bool
    why_not_ready: str
    grace_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A burst through one router, and its answers to wrong requests."""

    router: str
    asked: int
    answered: int
    troubles: tuple[str, ...]
    """The most frequent reasons for a missing answer."""
    shares: Mapping[str, int | None]
    """Requests that each server finished meanwhile, by pod, with a port per rank by pod and rank; None without its metrics."""
    refused: Mapping[str, Reply]
    """By what was wrong with the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU node of the cluster."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One release behind the gateway. An object is empty where it does not exist, None where it could not be read."""

    pool: Manifest | None = None
    picker: Manifest | None = None
    """The endpoint picker's Deployment."""
    health_policy: Manifest | None = None
    backend_policy: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Objects in the cluster. `troubles` lists kinds that could not be read, with the reason."""

    pods: tuple[Pod, ...] = ()
    routers: tuple[RouterPod, ...] = ()
    nodes: tuple[Node, ...] = ()
    gateway: Manifest | None = None
    route: Manifest | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)
    """By the name of the InferencePool: the servers', and of a canary among users."""
    troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it."""

    endpoint: str
    """The URL, or empty."""
    door: Server | None
    """The endpoint, if reachable from this machine."""
    door_trouble: str = ""
    """Why it cannot."""
    name: HostName | None = None
    """The endpoint's host name, if it was asked."""
    one_server: bool = False
    """Whether all requests to the endpoint reach the same server."""
    pods: tuple[Server, ...] = ()
    """Pods that were queried."""
    tunnel_troubles: Mapping[str, str] = field(default_factory=dict)
    """Pods without a tunnel, with the reason."""
    cluster: Cluster | None = None
    cluster_trouble: str = ""
    """Why there is no cluster to check."""
    routed: Routed | None = None
    """None without a router that this machine reaches."""
    chats: tuple[Chat, ...] = ()
    chat_through: str = ""
    twice: Twice | None = None
    twice_trouble: str = ""
    told: tuple[Told, ...] = ()
    """Replies to the standing question, with --answers."""
    tool: Reply | None = None
    """The reply to a question that needs a tool, with --answers and a parser of tool calls."""

    @property
    def servers(self) -> tuple[Server, ...]:
        """The queried replicas: the pods, else the endpoint."""
        return self.pods or ((self.door,) if self.door is not None else ())
