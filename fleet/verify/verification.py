"""Runs `fleet verify`: from a stack to a report, within a fixed time."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from fleet.verify import (
    checks_answers,
    checks_cluster,
    checks_engine,
    checks_router,
    checks_service,
    checks_traffic,
    cluster,
    host_name,
)
from fleet.verify.ask import Asked, ask
from fleet.verify.facts import Cluster, Facts, Target
from fleet.verify.findings import Check, Report, format_where

if TYPE_CHECKING:
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings

ENDPOINT: Final = "endpoint"
"""Name of the endpoint in the report."""
NOT_GIVEN: Final = "the cluster was not checked: only --endpoint was given; pass --outputs or --kubeconfig too"
_NAME_SECONDS: Final = 5.0
"""Timeout of each of the two connections to a host name that just answered."""
_IN_CLUSTER: Final = (".svc", ".svc.cluster.local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The command's options."""

    endpoint: str | None = None
    """Overrides the stack's."""
    outputs: StackOutputs | None = None
    kubeconfig: Path | None = None
    """Overrides the stack's."""
    context: str | None = None
    api_key: str | None = None
    seconds: float = 60.0
    answers: bool = False
    """Also judge what the servers say."""

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster was given. The user's current context is never used: it may be any cluster."""
        return self.outputs is not None or self.kubeconfig is not None or self.context is not None


def verify(settings: Settings, project: str, asking: Asking) -> Report:
    """Checks the stack. Raises LiveError if there is nothing to check."""
    began = time.monotonic()
    facts = _look(settings, asking, began + asking.seconds)
    seconds = time.monotonic() - began
    return Report(
        project=project,
        stack=settings.stack,
        endpoint=facts.endpoint,
        looked_at=_looked_at(facts),
        seconds=seconds,
        checks=judge(facts, settings, answers=asking.answers),
    )


def judge(facts: Facts, settings: Settings, *, answers: bool = False) -> tuple[Check, ...]:
    """All checks, in report order."""
    checks = (
        checks_cluster.replicas(facts, settings),
        checks_router.routers(facts, settings),
        checks_service.reachable(facts),
        host_name.host_name(facts.name, settings, facts.door_trouble),
        checks_service.model(facts, settings),
        checks_service.version(facts, settings),
        checks_service.api_key(facts, settings),
        checks_service.completion(facts),
        checks_service.reasoning(facts, settings),
        checks_engine.flags(facts, settings),
        checks_engine.environment(facts, settings),
        checks_engine.configuration(facts, settings),
        checks_engine.engines(facts, settings),
        checks_engine.kv_tokens(facts, settings),
        checks_router.balance(facts, settings),
        checks_router.refusals(facts, settings),
        checks_traffic.ranks(facts, settings),
        checks_traffic.speculation(facts, settings),
        checks_traffic.transfers(facts, settings),
        checks_traffic.prefix_caching(facts, settings),
        *(judge_answers(facts, settings) if answers else ()),
        checks_cluster.gateway(facts, settings),
        checks_cluster.capacity(facts, settings),
    )
    return tuple(check for check in checks if check is not None)


def judge_answers(facts: Facts, settings: Settings) -> tuple[Check | None, ...]:
    """The checks of --answers."""
    return (
        checks_answers.answers(facts, settings),
        checks_answers.needle(facts, settings),
        checks_answers.tool_call(facts, settings),
    )


def _look(settings: Settings, asking: Asking, until: float) -> Facts:
    url = asking.endpoint or (asking.outputs.endpoint if asking.outputs is not None else "")
    paused = settings.server.replicas == 0
    door_trouble = "the stack is paused (replicas: 0)" if paused else _out_of_reach(url)
    # Internal addresses may be reachable (a VPN); only cluster-internal names are skipped.
    door = Target(name=ENDPOINT, url=url) if url and not door_trouble else None
    seen: Cluster | None = None
    router: Mapping[str, str] = {}
    cluster_trouble = "" if asking.has_cluster else NOT_GIVEN
    with contextlib.ExitStack() as stack:
        kubectl = stack.enter_context(_kubectl(settings, asking)) if asking.has_cluster else None
        tunnels = cluster.Tunnels()
        if kubectl is not None:
            try:
                seen = cluster.read(kubectl, settings)
            except LiveError as error:
                cluster_trouble = str(error)
            else:
                ready = tuple(pod.name for pod in seen.pods if pod.ready and not pod.going)
                tunnels = stack.enter_context(cluster.tunnels(kubectl, ready, settings.status_port))
                routers = tuple(one.name for one in seen.routers if one.ready)[:1]
                router = stack.enter_context(cluster.tunnels(kubectl, routers)).urls
        if seen is None and door is None:
            raise LiveError(f"nothing to check: {'; '.join(w for w in (door_trouble, cluster_trouble) if w)}")
        asked = asyncio.run(
            ask(
                settings,
                door=door,
                pods=tuple(Target(name=name, url=one) for name, one in sorted(tunnels.urls.items())),
                router=next((Target(name=name, url=one) for name, one in router.items()), None),
                one_server=_is_one_server(url, settings),
                api_key=asking.api_key if settings.guards_v1_only else None,
                until=until,
                answers=asking.answers,
                log_of=_log_of(kubectl),
            )
        )
    door_trouble = door_trouble or _out_of_the_vpc(asked, url, asking, settings)
    if seen is None and door_trouble:
        raise LiveError(f"nothing to check: {door_trouble}; {cluster_trouble}")
    facts = _facts(asked, url, door_trouble, seen, cluster_trouble, tunnels, settings)
    if facts.door is None or not host_name.is_asked(settings, url):
        return facts
    return replace(facts, name=host_name.look(settings.gateway.hostname or "", _NAME_SECONDS))


def _out_of_the_vpc(asked: Asked, url: str, asking: Asking, settings: Settings) -> str:
    """Why an unreachable endpoint is not a failure; empty if it answers or the user named it."""
    if (
        asked.door is None
        or asked.door.health.status is not None
        or asking.endpoint is not None
        or not (_is_private(url) or (host_name.is_asked(settings, url) and not settings.gateway.is_public))
    ):
        return ""
    said = asked.door.health.summary
    return f"{url} is an address in the VPC that this machine does not reach ({said}); pass --endpoint {url} to check it anyway"


def _facts(
    asked: Asked,
    url: str,
    door_trouble: str,
    seen: Cluster | None,
    cluster_trouble: str,
    tunnels: cluster.Tunnels,
    settings: Settings,
) -> Facts:
    return Facts(
        endpoint=url,
        door=None if door_trouble else asked.door,
        door_trouble=door_trouble,
        one_server=_is_one_server(url, settings),
        pods=asked.pods,
        tunnel_troubles=dict(tunnels.troubles),
        cluster=seen,
        cluster_trouble=cluster_trouble,
        routed=asked.routed,
        chats=asked.chats,
        chat_through=asked.chat_through,
        twice=asked.twice,
        twice_trouble=asked.twice_trouble,
        told=asked.told,
        tool=asked.tool,
    )


@contextlib.contextmanager
def _kubectl(settings: Settings, asking: Asking) -> Iterator[Kubectl]:
    with contextlib.ExitStack() as stack:
        file = asking.kubeconfig
        # A named context is in the user's kubeconfig; the stack's kubeconfig does not have it.
        if file is None and asking.context is None and asking.outputs is not None:
            file = stack.enter_context(asking.outputs.kubeconfig_file())
        yield Kubectl(namespace=settings.namespace, kubeconfig=file, context=asking.context)


def _log_of(kubectl: Kubectl | None) -> Callable[[tuple[str, ...]], dict[str, tuple[int, ...]]] | None:
    if kubectl is None:
        return None
    return lambda pods: cluster.logged_kv_tokens(kubectl, pods)


def _out_of_reach(url: str) -> str:
    """Why this machine cannot reach an endpoint; empty if it can."""
    if not url:
        return "address unknown"
    host = urlsplit(url).hostname or ""
    if host.endswith(_IN_CLUSTER):
        return f"{host} is a cluster-internal name"
    return ""


def _is_private(url: str) -> bool:
    try:
        address = ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return address.is_private and not address.is_loopback


def _is_one_server(url: str, settings: Settings) -> bool:
    """Whether all requests to the URL reach one server: a local tunnel, or a stack with one replica."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return True
    return host == "localhost" or (settings.server.fixed_replicas == 1 and not settings.gateway.enabled)


def _looked_at(facts: Facts) -> str:
    names = [pod.name for pod in ((facts.door,) if facts.door is not None else ()) + facts.pods]
    through = " through kubectl" if facts.pods else ""
    return f"{format_where(names)}{through}"
