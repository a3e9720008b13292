"""Data read from a running stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.clients.metrics_text import MetricsText

Manifest = Mapping[str, Any]
LATE: Final = "no answer within"
"""Start of the message for a request that timed out; seconds follow."""


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

    @property
    def ok(self) -> bool:
        """Whether the status is 200."""
        return self.status == 200

    @property
    def is_late(self) -> bool:
        """Whether it timed out: a busy server is late, too."""
        return self.trouble.startswith(LATE)

    @property
    def summary(self) -> str:
        """Short text of the response."""
        return self.trouble if self.status is None else f"HTTP {self.status}"

    @property
    def refusal(self) -> str:
        """The response with the server's own words, shortened: the message of an error as vLLM writes it, or the text of a proxy."""
        error = self.body.get("error", self.body) if isinstance(self.body, Mapping) else self.body
        said = error.get("message", error) if isinstance(error, Mapping) else error
        words = " ".join(str(said or "").split())[:160]
        return f"{self.summary}: {words}" if words else self.summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One streamed chat completion."""

    through: str
    """Name of the server that was asked."""
    trouble: str = ""
    content: str = ""
    reasoning: str = ""
    tokens: int | None = None
    """Of the answer, by its usage; None if it did not come to that."""

    @property
    def spoke(self) -> bool:
        """Whether there is any text."""
        return bool(self.content or self.reasoning)

    @property
    def is_late(self) -> bool:
        """Whether its time was up before the end."""
        return self.trouble.startswith(LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Short parallel requests, with counters before and after."""

    asked: int
    answered: int
    late: int = 0
    """Requests without an answer or error at the burst's timeout."""
    troubles: tuple[str, ...] = ()
    """Distinct errors, most frequent first."""
    before: MetricsText | None = None
    after: MetricsText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Twice:
    """A long prompt sent twice, with counters before and after."""

    where: str
    prompt_tokens: int
    first: Reply
    second: Reply
    before: MetricsText | None
    after: MetricsText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The reply to the one question that every engine is asked."""

    where: str
    name: str
    """Engine and moment."""
    reply: Reply


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
    burst: Burst | None = None

    @property
    def answers(self) -> bool:
        """Whether it is ready."""
        return self.health.ok

    @property
    def listed(self) -> dict[str, Mapping[str, Any]]:
        """The models of /v1/models, by name."""
        models = self.models.body.get("data") if isinstance(self.models.body, Mapping) else None
        found = models if isinstance(models, list) else []
        return {str(one.get("id")): one for one in found if isinstance(one, Mapping)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod in the cluster."""

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
class Cluster:
    """Objects in the cluster. `troubles` lists what could not be read, with the reason."""

    pods: tuple[Pod, ...] = ()
    routers: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    gateway: Mapping[str, Manifest] = field(default_factory=dict)
    """The gateway's objects by kind and name, such as `HTTPRoute qwen35-pool`; empty where one does not exist."""
    troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostName:
    """The endpoint's host name as a client sees it. A trouble is the reason why there was no answer."""

    name: str
    days_left: int | None = None
    """Validity of the certificate, which this machine trusts for the name."""
    tls_trouble: str = ""
    redirect: str = ""
    """Status and target of GET / on port 80."""
    redirect_trouble: str = ""
    call: str = ""
    """Status and target of a POST below /v1 on port 80; empty without an answer."""


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
    chat: Chat | None = None
    twice: Twice | None = None
    told: tuple[Told, ...] = ()
    """Replies to the one question, with --answers."""

    @property
    def servers(self) -> tuple[Server, ...]:
        """The queried replicas: the pods, else the endpoint."""
        return self.pods or ((self.door,) if self.door is not None else ())

    @property
    def everybody(self) -> tuple[Server, ...]:
        """All that were queried."""
        return ((self.door,) if self.door is not None else ()) + self.pods

    @property
    def answering(self) -> tuple[Server, ...]:
        """Those that are ready."""
        return tuple(server for server in self.everybody if server.answers)

    @property
    def bursts(self) -> tuple[tuple[str, Burst], ...]:
        """The replicas that got a burst, by name."""
        return tuple((server.name, server.burst) for server in self.servers if server.burst is not None)


def the_cluster(facts: Facts) -> str:
    """Why there is no cluster to check; empty if there is."""
    return (facts.cluster_trouble or "the cluster was not read") if facts.cluster is None else ""


def the_pods(facts: Facts) -> str:
    """Why there are no server pods to check; empty if there are."""
    return the_cluster(facts) or ("" if running(facts) else "no server pod")


def running(facts: Facts) -> list[Pod]:
    """Server pods that are not ending."""
    return [pod for pod in facts.cluster.pods if pod.args and not pod.going] if facts.cluster is not None else []


def a_server(facts: Facts) -> str:
    """Why no server could be queried; empty if one answered."""
    if facts.answering:
        return ""
    return "no server answers" if facts.everybody else facts.door_trouble or facts.cluster_trouble or "no server"


def a_burst(facts: Facts) -> str:
    """Why there are no counters of a burst; empty if there are."""
    if why := a_server(facts):
        return why
    if not facts.pods and not facts.one_server:
        return (
            "only the endpoint is known: behind a Service or a gateway, each scrape of /metrics reaches a different pod; "
            "pass --kubeconfig or --outputs to query every pod"
        )
    blind = [server.name for server in facts.servers if server.burst is None or server.burst.after is None]
    troubles = [server.metrics_trouble for server in facts.servers if server.metrics_trouble]
    return "; ".join(troubles[:1] or ["no counters at /metrics"]) if len(blind) == len(facts.servers) else ""
