"""Checks of `server.prefillNodes`: prefill and decode on nodes of their own, which hand caches over by RDMA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.gke_releases import RDMA_CLAIMS, has_rdma_claims
from facts.machines import MACHINES
from facts.names import MAX_SERVER_NAME, PREFILL_ENDING
from settings.checks.shape import old_release, unequal_drafts
from settings.sections.capacity import Ladder
from settings.sections.section import key
from settings.shaped_engine import set_twice

if TYPE_CHECKING:
    from settings.stack import Settings

_PATH: Final = key("server.prefillNodes")


def prefill_problems(settings: Settings) -> Iterator[Finding]:
    """Every reason why prefill nodes do not work here."""
    if settings.server.prefill_nodes is None:
        if settings.endpoint_kind == "prefillApart":
            yield Finding(
                id="router-without-prefill",
                subject=key("endpoint.kind"),
                found="prefillApart",
                allowed="prefillApart with server.prefillNodes",
                why="its routers send each prompt to a prefill node first, and there is none",
                write="server: {prefillNodes: 2}, or another kind",
            )
        return
    yield from _nodes(settings)
    yield from _servers(settings)
    yield from _with(settings)
    if settings.endpoint_kind != "prefillApart":
        yield Finding(
            id="prefill-without-router",
            subject=key("endpoint.kind"),
            found=settings.endpoint_kind,
            allowed="left out, or prefillApart, with server.prefillNodes",
            why="vLLM hands a cache over only for a request that asks for it, and only that kind's routers ask: with another one "
            "prefill nodes stay idle, and every answer is 200",
            write="kind: prefillApart",
        )
    if settings.prefill_replicas == 1:
        has_spot = isinstance(settings.capacity, Ladder) and settings.capacity.spot
        also = ", eviction and stop of a Spot node" if has_spot else " and eviction"
        yield Finding(
            id="prefill-alone",
            subject=_PATH,
            found=1,
            allowed="2 or more to serve meanwhile",
            why=f"at every update{also} the only prefill node goes before its successor is ready, and until then every request "
            "fails: routers send each prompt to prefill first",
            write="prefillNodes: 2, if requests must not fail then",
            severity="warning",
        )
    yield Finding(
        id="prefill-not-tried",
        subject=_PATH,
        found=settings.server.prefill_nodes,
        why="checked against Kubernetes' schemas and scheduler only: whether a pod may register GPU memory with the network cards without "
        "the capability IPC_LOCK, which Autopilot refuses, is not known",
        write="try one prefill and one decode node, and look for rc_mlx5 in the server's log with UCX_LOG_LEVEL=info",
        severity="note",
    )


def _nodes(settings: Settings) -> Iterator[Finding]:
    able = sorted(machine.type for machine in MACHINES.values() if machine.claims_rdma)
    if not settings.machine.claims_rdma:
        yield Finding(
            id="prefill-machine",
            subject=key("machine"),
            found=settings.machine.type,
            allowed=" or ".join(able) + ", with server.prefillNodes",
            why="a request's cache is hundreds of megabytes, and Autopilot gives pods RDMA network cards on these machines only",
            write=f"machine: {able[-1]}",
        )
    if not isinstance(settings.capacity, Ladder):
        yield Finding(
            id="prefill-capacity",
            subject=key("capacity.mode"),
            found=settings.capacity.mode,
            allowed="ladder, with server.prefillNodes",
            why="a node gets RDMA networks only by a ComputeClass, which is what a ladder creates",
            write="capacity: {mode: ladder}; a ladder with one rung is that mode alone, e.g. {mode: ladder, flexStartSeconds: null}",
        )
    if len(settings.zones) > 1:
        yield Finding(
            id="prefill-zones",
            subject=key("zones"),
            found=list(settings.zones),
            allowed="one zone with server.prefillNodes",
            why="an RDMA network lies in one zone, and a prefill node in another one cannot be read",
            write=f'zones: ["{settings.zones[0]}"]',
        )
    cluster = settings.cluster
    if settings.owns_platform and not has_rdma_claims(cluster.release_channel, cluster.min_version):
        yield Finding(
            id="prefill-gke",
            subject=key("cluster.minVersion"),
            found=cluster.min_version,
            allowed=f"{RDMA_CLAIMS} or later, with server.prefillNodes",
            why=f"the channel {cluster.release_channel} has earlier versions, too: their Autopilot clusters have no DRANET, and pods stay "
            "Pending",
            write=f"minVersion: {RDMA_CLAIMS}",
        )
    if not settings.owns_platform:
        yield Finding(
            id="prefill-gke-of-another",
            subject=key("platform"),
            found="a cluster that this stack does not create",
            why=f"nothing offline says its version: before GKE {RDMA_CLAIMS} Autopilot has no DRANET, and both kinds of pods stay Pending",
            write=f"nothing, if its currentMasterVersion is {RDMA_CLAIMS} or later: gcloud container clusters describe CLUSTER "
            f"--project {settings.project} --region {settings.region}",
            severity="note",
        )


def _servers(settings: Settings) -> Iterator[Finding]:
    server, engine = settings.server, settings.serving.engine
    yield from old_release(
        "prefill-release",
        _PATH,
        engine,
        server,
        why="earlier releases were not run with a transfer, and those before 0.30.0 answer hybrid models wrongly with drafts",
    )
    yield from unequal_drafts("prefill-with-drafts", _PATH, engine)
    for path, name in set_twice(server.engine):
        yield Finding(
            id="prefill-set-twice",
            subject=key(path),
            found=name,
            allowed="left out, with server.prefillNodes",
            why="prefill and decode nodes have different roles and addresses, which this program sets",
            write=f"remove {name}",
        )
    if len(server.name) + len(PREFILL_ENDING) > MAX_SERVER_NAME:
        yield Finding(
            id="name-too-long-for-prefill",
            subject=key("server.name"),
            found=server.name,
            allowed=f"up to {MAX_SERVER_NAME - len(PREFILL_ENDING)} characters with server.prefillNodes",
            why=f"the prefill servers are called {server.name}{PREFILL_ENDING}, and a name has up to {MAX_SERVER_NAME} characters",
            write="name: a shorter one; renaming servers replaces them",
        )


def _with(settings: Settings) -> Iterator[Finding]:
    """Keys that do not go together with prefill nodes."""
    server = settings.server
    scaled = server.scaling.mode != "none"
    others = (
        (
            scaled or server.replicas == "external",
            "prefill-with-scaling",
            "server.scaling.mode" if scaled else "server.replicas",
            server.scaling.mode if scaled else server.replicas,
            "a number of replicas and no scaling",
            "the ratio of prefill to decode nodes decides what the split gains, and an autoscaler would change one of the two",
            "replicas: a number, without scaling",
        ),
        (
            settings.rollout.canary is not None,
            "prefill-with-canary",
            "rollout.canary",
            "(set)",
            "no canary",
            "a canary of another release cannot take the caches of these prefill nodes",
            "remove canary; upgrade with replicas: 0 in between, so that both sides change together",
        ),
        (
            server.rank_ports,
            "prefill-with-rank-ports",
            "server.rankPorts",
            True,
            "false",
            "the router sees one address of each pod, and would reach its first rank only",
            "remove rankPorts",
        ),
        (
            server.shape is not None,
            "prefill-with-shape",
            "server.shape",
            "(set)",
            "no shape",
            "the engines of these pods all have one role",
            "remove shape, or remove prefillNodes",
        ),
        (
            server.compile_cache.enabled,
            "prefill-with-compile-cache",
            "server.compileCache.enabled",
            True,
            "false",
            "one account may write the cache of one release, and the two sides have different flags",
            "compileCache: {enabled: false}",
        ),
    )
    for wrong, id_, path, found, allowed, why, write in others:
        if wrong:
            yield Finding(
                id=id_,
                subject=key(path),
                found=found,
                allowed=f"{allowed}, with server.prefillNodes",
                why=why,
                write=write,
            )
