"""What was read on a running stack, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.clients.metrics_text import MetricsText

Manifest = Mapping[str, Any]
OUT_OF_TIME: Final = "the time for this command was up"
LATE: Final = "no answer within"
"""Beginning of the words for a request that had all of its own time; seconds follow."""
NAME_UNKNOWN: Final = "its name is not known here"
NOT_HTTP: Final = "the answer is not HTTP"
TLS_FAILED: Final = "TLS failed"
"""Beginning of the words; the library's own follow."""


def is_late(trouble: str) -> bool:
    """Whether nothing is known but that no answer came in time: a busy server's, or one that was asked too late."""
    return trouble == OUT_OF_TIME or trouble.startswith(LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to one request."""

    status: int | None = None
    """None where none came; `trouble` says why."""
    body: Any = None
    """Parsed JSON, or text where it is not JSON."""
    trouble: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it is a 200."""
        return self.status == 200

    @property
    def late(self) -> bool:
        """Whether it did not come in time."""
        return is_late(self.trouble)

    @property
    def summary(self) -> str:
        """What came back, for a person."""
        return self.trouble if self.status is None else f"HTTP {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One chat completion, whole or streamed."""

    stream: bool
    thinking: bool | None
    """What the request said about thinking; None leaves it to the server's default."""
    asked_tokens: int
    status: int | None = None
    trouble: str = ""
    content: str = ""
    reasoning: str = ""
    finish: str | None = None
    """The finish reason; None where the answer did not end."""
    usage: Mapping[str, Any] | None = None
    chunks: int = 0
    """Chunks that carried text."""
    ttft_seconds: float | None = None
    seconds: float = 0.0

    @property
    def spoke(self) -> bool:
        """Whether any text came."""
        return bool(self.content or self.reasoning)

    @property
    def late(self) -> bool:
        """Whether its end did not come in time."""
        return is_late(self.trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Short requests sent at once, and the counters around them."""

    asked: int
    answered: int
    troubles: tuple[str, ...]
    """Distinct ones, the most frequent first."""
    seconds: float
    before: MetricsText | None
    after: MetricsText | None
    late: int = 0
    """Not answered when the burst's time was up, and not refused."""
    cut_short: bool = False
    """Whether the command's time was up before the burst's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """The same long prompt sent twice, and the counters around it."""

    where: str
    prompt_tokens: int
    first: Reply
    second: Reply
    before: MetricsText | None
    after: MetricsText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One address that was asked: a pod through its tunnel, or the endpoint."""

    name: str
    health: Reply
    models: Reply = field(default_factory=Reply)
    models_without_key: Reply | None = None
    """Asked only where the stack guards /v1."""
    version: Reply = field(default_factory=Reply)
    metrics: MetricsText | None = None
    metrics_trouble: str = ""
    logged_kv_tokens: tuple[int, ...] = ()
    """What the pod's log says of every engine's cache, where the metrics do not."""
    burst: Burst | None = None

    @property
    def answers(self) -> bool:
        """Whether it is there and ready."""
        return self.health.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A server pod as the cluster has it."""

    name: str
    node: str
    ready: bool
    going: bool
    """Whether it is being deleted."""
    why_not_ready: str
    image: str
    args: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """Variables of the server's container as the pod has them written; None for a value that comes from elsewhere, such as a Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU node of the cluster."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the control plane says. A kind that could not be read is in `troubles`, with why."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    gateway: Manifest | None = None
    route: Manifest | None = None
    pool: Manifest | None = None
    health_policy: Manifest | None = None
    backend_policy: Manifest | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it."""

    endpoint: str
    """The URL; empty where none is known."""
    door: Server | None
    """The endpoint, where it can be asked from here."""
    door_trouble: str = ""
    """Why it cannot."""
    one_server: bool = False
    """Whether everything asked of the endpoint reaches the same server."""
    pods: tuple[Server, ...] = ()
    """Pods that were asked one by one."""
    tunnel_troubles: Mapping[str, str] = field(default_factory=dict)
    """Pods to which no tunnel could be had, with why."""
    cluster: Cluster | None = None
    cluster_trouble: str = ""
    """Why there is no cluster to look at."""
    chats: tuple[Chat, ...] = ()
    chat_through: str = ""
    twice: Twice | None = None
    twice_trouble: str = ""
    seconds: float = 0.0

    @property
    def servers(self) -> tuple[Server, ...]:
        """What stands for the replicas: the pods, else the endpoint."""
        return self.pods or ((self.door,) if self.door is not None else ())
