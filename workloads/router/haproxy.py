"""HAProxy's configuration for a router, as text. Creates no resource.

It is valid for HAProxy 2.6 and newer. The key is never in the text: HAProxy reads it from a mounted file.
Source of every keyword: HAProxy 2.6, Configuration Manual.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from facts.engines import BEHIND_BALANCER_SECONDS
from settings.derived.router import CONNECTIONS_PER_GIB
from settings.sections.endpoint import ROUTER_DRAIN_SECONDS, Router
from workloads import names, vllm_router

DOMAIN_VARIABLE: Final = "DOMAIN"
"""Environment variable with the DNS suffix of the namespace's Services: the text, which names its ConfigMap, has no namespace."""
READY_PATH: Final = "/ready"
HEALTH_PATH: Final = "/health"
BACKEND: Final = names.ROUTER_BACKEND
MOST_QUEUED: Final = 1_000
"""Waiting requests in one router; further ones get 429. Assumed."""
QUEUE_SECONDS: Final = 30
"""How long a request waits before it gets 503. Assumed: clients give up soon after."""
TIMEOUT_SECONDS: Final = 3_600
"""Longest silence of a client or server, the time to the first token included. Assumed."""
RETRY_AFTER_SECONDS: Final = 1
"""What a refused client waits. Assumed: a slot is free again after a fraction of a second on a fleet with a hundred requests a second."""
_SEVERAL_ANSWERS: Final = """'"n"[[:space:]]*:[[:space:]]*"?([2-9]|1[0-9])'"""
_LISTED_PROMPTS: Final = """'"prompt"[[:space:]]*:[[:space:]]*\\[[[:space:]]*["[]'"""
"""Regular expressions, because a JSON converter finds nothing in a body that is longer than the buffer. Within a JSON text quotes have a
backslash before them, so that a prompt's own words do not match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Haproxy:
    """Arguments of `config`: one HAProxy in front of servers.

    It finds them behind DNS names with the address of each ready one: headless Services, one for each port (`servers_service`).
    """

    slots: int
    """Most servers, 1 to 400. Further ones would get no requests."""
    ports: tuple[int, ...] = (names.HTTP_PORT,)
    """Ports of each server; each is a target of its own, such as a rank."""
    router: Router = field(default_factory=Router)
    """Threads and connections."""
    max_in_flight: int
    """Requests in flight at one target through this router; further ones wait here."""
    v1_only: bool = False
    """Whether only paths under /v1 are served: those that vLLM guards by its key."""
    key_file: str | None = None
    """File with the key that a client must send. None: the servers check it."""
    has_pod_router: bool = False
    """Whether each server is a pod with prefill apart and a router of its own. Then bodies of its 5xx are replaced, because they have
    addresses, and requests with a list of texts as prompt, even of one, or for several answers (`n`), get 400: one cache is handed over
    for each request. It sees what is within a buffer of HAProxy, the first 15 KiB of a body."""


def servers_service(index: int) -> str:
    """Name of the headless Service by which the servers' port with this index is found: HAProxy gives an address to one server only of
    each name, whatever the port.
    """
    return f"{names.ROUTER_APP}-servers" + (f"-{index}" if index else "")


def config(args: Haproxy) -> str:
    """The file `haproxy.cfg`."""
    sections = (
        ("global", _global(args.router)),
        ("defaults", _defaults()),
        ("resolvers cluster", _resolvers()),
        (f"frontend {names.ROUTER_FRONTEND}", _requests(args)),
        (f"backend {BACKEND}", _servers(args)),
        ("frontend operations", _operations()),
    )
    return "\n".join(f"{title}\n" + "".join(f"    {line}\n" for line in lines) for title, lines in sections)


def _global(router: Router) -> Iterator[str]:
    # HAProxy would start a thread for each CPU of the node.
    yield f"nbthread {router.cpu}"
    # Further connections wait in the kernel.
    yield f"maxconn {router.memory_gib * CONNECTIONS_PER_GIB}"
    # SIGUSR1 closes the listeners and lets streams finish, at most so long.
    yield f"hard-stop-after {ROUTER_DRAIN_SECONDS}s"
    yield f"stats socket ipv4@127.0.0.1:{names.ROUTER_ADMIN_PORT} level operator"
    yield "log stdout format raw local0 info"


def _defaults() -> Iterator[str]:
    yield "mode http"
    yield "log global"
    # Requests with errors, timeouts or retries; all would be millions of lines a day. Without headers: they contain keys.
    yield "option dontlog-normal"
    yield (
        """log-format '{"event":"request","severity":"WARNING","status":%ST,"end":"%tsc","server":"%s","path":"%HPO","""
        """"queuedMs":%Tw,"connectMs":%Tc,"firstByteMs":%Tr,"totalMs":%Ta,"retries":"%rc","queued":%bq}'"""
    )
    yield "timeout http-request 30s"
    yield f"timeout http-keep-alive {BEHIND_BALANCER_SECONDS}s"
    yield f"timeout client {TIMEOUT_SECONDS}s"
    yield "timeout client-fin 30s"
    yield "timeout connect 5s"
    yield f"timeout server {TIMEOUT_SECONDS}s"
    yield f"timeout tunnel {TIMEOUT_SECONDS}s"
    yield f"timeout queue {QUEUE_SECONDS}s"
    yield "timeout check 10s"
    # Each chunk of a stream at once, and a vanished peer after 40 s instead of the timeout of a long answer.
    yield "option http-no-delay"
    for side in ("cli", "srv"):
        yield f"option {side}tcpka"
        yield f"{side}tcpka-idle 10s"
        yield f"{side}tcpka-intvl 10s"
        yield f"{side}tcpka-cnt 3"
    for status, (kind, message) in _ERRORS.items():
        later = f" hdr Retry-After {RETRY_AFTER_SECONDS}" if status in (429, 503) else ""
        yield f"http-error status {status} {_body(kind, message)}{later}"


_ERRORS: Final = {
    400: ("invalid_request_error", "The request is malformed."),
    408: ("invalid_request_error", "The request was not received in time."),
    429: ("rate_limit_error", "Too many requests; try again later."),
    500: ("server_error", "The server failed."),
    502: ("server_error", "The server failed."),
    503: ("server_error", "No server is free; try again later."),
    504: ("server_error", "The server did not answer in time."),
}
"""HAProxy's own answers, in the form of the OpenAI API's errors."""


def _body(kind: str, message: str) -> str:
    text = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})
    return f"content-type application/json string '{text}'"


def _answer(status: int, kind: str, message: str, *headers: str) -> str:
    return " ".join((f"http-request return status {status}", _body(kind, message), *(f"hdr {one}" for one in headers)))


def _resolvers() -> Iterator[str]:
    yield "parse-resolv-conf"
    yield "accepted_payload_size 8192"
    yield "resolve_retries 3"
    yield "timeout resolve 1s"
    yield "timeout retry 1s"
    # A pod that ended leaves the name at once; a nameserver that fails leaves the last known servers in place.
    yield "hold valid 2s"
    yield "hold obsolete 2s"
    for failure in ("nx", "refused", "timeout", "other"):
        yield f"hold {failure} 60s"


def _requests(args: Haproxy) -> Iterator[str]:
    yield f"bind :{names.HTTP_PORT}"
    yield f"http-request return status 200 content-type text/plain string ok if {{ path {HEALTH_PATH} }} {{ nbsrv({BACKEND}) ge 1 }}"
    yield (
        f"{_answer(503, *_ERRORS[503], f'Retry-After {RETRY_AFTER_SECONDS}')} if {{ path {HEALTH_PATH} }}"
        # A stopping router counts no servers, and still has the next requests of connections with streams.
        f" || {{ nbsrv({BACKEND}) eq 0 }} !{{ stopping }}"
    )
    if args.v1_only:
        unknown = _answer(404, "invalid_request_error", "Only paths under /v1 are served.")
        # A dot segment could leave /v1 where a later hop normalizes it.
        yield f"{unknown} if !{{ path_beg /v1/ }} || {{ path_sub -i .. %2e %2f }}"
    yield from _key(args)
    yield (
        f"{_answer(429, *_ERRORS[429], f'Retry-After {RETRY_AFTER_SECONDS}')} if {{ queue({BACKEND}) ge {MOST_QUEUED} }}"
    )
    if args.has_pod_router:
        yield "http-request wait-for-body time 30s if METH_POST"
        yield f"acl several req.body -m reg {_SEVERAL_ANSWERS}"
        yield f"acl several req.body -m reg {_LISTED_PROMPTS}"
        refused = _answer(400, "invalid_request_error", "prompt must be one text, not a list, and n must be 1.")
        yield f"{refused} if METH_POST several"
    yield f"default_backend {BACKEND}"


def _key(args: Haproxy) -> Iterator[str]:
    if args.key_file is None:
        return
    refused = _answer(401, "authentication_error", "The API key is missing or wrong.", "WWW-Authenticate Bearer")
    yield "http-request set-var(txn.key) http_auth_bearer"
    # An empty file matches no key.
    yield f"acl servers_key var(txn.key) -m str -f {args.key_file}"
    yield f"{refused} unless servers_key"


def _servers(args: Haproxy) -> Iterator[str]:
    yield "balance leastconn"
    yield "option httpchk"
    health = vllm_router.HEALTH_PATH if args.has_pod_router else HEALTH_PATH
    yield f"http-check send meth GET uri {health} ver HTTP/1.1 hdr Host router"
    yield "http-check expect status 200"
    # Only where nothing was sent: a request that reached a server is never repeated.
    yield "retries 3"
    yield "retry-on conn-failure"
    yield "option redispatch 1"
    # vLLM closes idle connections after 5 s; a request on a closing one would have to be repeated or lost.
    yield "http-reuse never"
    # A client that left does not get a slot.
    yield "option abortonclose"
    if args.has_pod_router:
        yield f"http-response return status 502 {_body(*_ERRORS[502])} if {{ status 500 502 504 }}"
        yield f"http-response return status 503 {_body(*_ERRORS[503])} hdr Retry-After {RETRY_AFTER_SECONDS} if {{ status 503 }}"
    # /health is slow on a busy server: as its pod's readiness probe.
    # A dead server has the fewest requests: unless refused connections mark it down, it attracts all others. Measured
    # (docs/routers.md, Deaths): 14,390 answers of 503 in 11 s without, 2 where the first one does.
    # So has one that answers 500 at once, while its health is 200: a vLLM server after its stop signal (0.33.0, seen), or the router of a
    # pod with prefill apart whose engine is dead (run). One such answer may be a request's own fault, so three in a row count.
    observed = "observe layer7 error-limit 3 on-error mark-down"
    common = f"check {observed} inter 10s fastinter 2s downinter 2s fall 3 rise 1 maxconn {args.max_in_flight}"
    yield f"default-server {common} init-addr none resolvers cluster resolve-prefer ipv4"
    for index, port in enumerate(args.ports):
        yield f'server-template s{index}- {args.slots} "{servers_service(index)}.${{{DOMAIN_VARIABLE}}}:{port}"'


def _operations() -> Iterator[str]:
    yield f"bind :{names.ROUTER_METRICS_PORT}"
    yield "http-request use-service prometheus-exporter if { path /metrics }"
    # Whether the router runs, not whether servers do: without one it answers 503 with Retry-After.
    yield f"http-request return status 200 content-type text/plain string ready if {{ path {READY_PATH} }}"
    yield "http-request return status 404"
