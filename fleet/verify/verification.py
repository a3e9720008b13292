"""Runs `fleet verify`: from a stack to a report."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from fleet.verify import checks_cluster, checks_engine, checks_service, checks_traffic, cluster, host_name
from fleet.verify.ask import Asked, ask
from fleet.verify.facts import Cluster, Facts, Target
from fleet.verify.findings import Check, Report, Row, format_where

if TYPE_CHECKING:
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings

CHECKS: Final[tuple[Row, ...]] = (
    checks_cluster.replicas,
    checks_cluster.routers,
    checks_service.reachable,
    host_name.host_name,
    checks_service.model,
    checks_service.version,
    checks_service.api_key,
    checks_service.completion,
    checks_service.reasoning,
    checks_engine.flags,
    checks_engine.environment,
    checks_engine.configuration,
    checks_traffic.ranks,
    checks_traffic.balance,
    checks_traffic.refusals,
    checks_traffic.speculation,
    checks_traffic.transfers,
    checks_traffic.prefix_caching,
    checks_traffic.answers,
    checks_cluster.gateway,
    checks_cluster.capacity,
)
"""In report order."""
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
    answers: bool = False
    """Also judge what the servers say."""

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster was given. The user's current context is never used: it may be any cluster."""
        return self.outputs is not None or self.kubeconfig is not None or self.context is not None


def verify(settings: Settings, project: str, asking: Asking) -> Report:
    """Checks the stack. Raises LiveError if there is nothing to check."""
    began = time.monotonic()
    facts = _look(settings, asking)
    through = " through kubectl" if facts.pods else ""
    return Report(
        project=project,
        stack=settings.stack,
        endpoint=facts.endpoint,
        looked_at=format_where(server.name for server in facts.everybody) + through,
        seconds=time.monotonic() - began,
        checks=judge(facts, settings, answers=asking.answers),
    )


def judge(facts: Facts, settings: Settings, *, answers: bool = False) -> tuple[Check, ...]:
    """All checks that apply. `answers`: the engines were asked the one question, too."""
    rows = (row for row in CHECKS if answers or row is not checks_traffic.answers)
    return tuple(check for row in rows if (check := row(facts, settings)) is not None)


def _look(settings: Settings, asking: Asking) -> Facts:
    url = asking.endpoint or (asking.outputs.endpoint if asking.outputs is not None else "")
    paused = settings.server.replicas == 0
    door_trouble = "the stack is paused (replicas: 0)" if paused else _out_of_reach(url)
    # Internal addresses may be reachable (a VPN); only cluster-internal names are skipped.
    door = Target(name=ENDPOINT, url=url) if url and not door_trouble else None
    seen: Cluster | None = None
    router: dict[str, str] = {}
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
                router = dict(stack.enter_context(cluster.tunnels(kubectl, routers)).urls)
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
                answers=asking.answers,
            )
        )
    door_trouble = door_trouble or _out_of_the_vpc(asked, url, asking, settings)
    if seen is None and door_trouble:
        raise LiveError(f"nothing to check: {door_trouble}; {cluster_trouble}")
    name = host_name.is_asked(settings, url) and not door_trouble
    return Facts(
        endpoint=url,
        door=None if door_trouble else asked.door,
        door_trouble=door_trouble,
        name=host_name.look(settings.gateway.hostname or "", _NAME_SECONDS) if name else None,
        one_server=_is_one_server(url, settings),
        pods=asked.pods,
        tunnel_troubles=dict(tunnels.troubles),
        cluster=seen,
        cluster_trouble=cluster_trouble,
        routed=asked.routed,
        chat=asked.chat,
        twice=asked.twice,
        told=asked.told,
    )


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


@contextlib.contextmanager
def _kubectl(settings: Settings, asking: Asking) -> Iterator[Kubectl]:
    with contextlib.ExitStack() as stack:
        file = asking.kubeconfig
        # A named context is in the user's kubeconfig; the stack's kubeconfig does not have it.
        if file is None and asking.context is None and asking.outputs is not None:
            file = stack.enter_context(asking.outputs.kubeconfig_file())
        yield Kubectl(namespace=settings.namespace, kubeconfig=file, context=asking.context)


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
