"""Checks of `server.shape`: prefill apart from decode, in each pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.ledger import value
from facts.model_config import EXPERTS
from facts.models import ModelShape
from facts.releases import number_of
from settings.sections.engine import Engine
from settings.sections.section import key
from settings.sections.shape import Shape
from settings.shaped_engine import OWN_VARIABLES, TRANSFER

if TYPE_CHECKING:
    from settings.sections.server import Server
    from settings.stack import Settings

FIRST_RELEASE: Final = "0.33.0"
"""The release whose transfers were run (facts/data/disaggregation.yaml). Earlier ones with NIXL are right only in part."""


def split_problems(settings: Settings) -> Iterator[Finding]:
    """Every reason why this stack's pods cannot be split so."""
    path, server = key("server.shape"), settings.server
    shape, engine = server.shape, settings.serving.engine
    yield from shape_problems(path, shape, engine, settings.serving.shape, rank_ports=server.rank_ports, server=server)
    if shape is None:
        return
    yield from _set_twice(settings)
    if settings.endpoint_kind != "leastRequest":
        yield Finding(
            id="shape-without-proxy",
            subject=key("endpoint.kind"),
            found=settings.endpoint_kind,
            allowed="leastRequest with server.shape",
            why="the pods' router checks no key, drops the client's own, takes servers in and out for anyone who asks, and answers a dead "
            "server with its address; with leastRequest HAProxy checks keys, passes only /v1, replaces such answers, and nothing else "
            "reaches the pods",
            write="endpoint: {kind: leastRequest}",
        )
    if settings.rollout.canary is not None:
        yield Finding(
            id="shape-of-a-canary",
            subject=path,
            found="(set)",
            allowed="left out with rollout.canary",
            why="a canary has no shape of its own, so `fleet rollout judge` would compare engines of two kinds",
            write="remove shape while there is a canary, or upgrade without a canary",
        )
    yield from _more_than_decode_holds(settings)


def shape_problems(
    path: str,
    shape: Shape | None,
    engine: Engine,
    model: ModelShape | None,
    *,
    rank_ports: bool,
    server: Server | None = None,
) -> Iterator[Finding]:
    """Whether an engine can be split so. `path`: of the setting. `server`: of the stack file, if there is one."""
    if shape is None:
        return
    asked, each = (shape.prefill_gpus, shape.decode_gpus), engine.tensor_parallel_size
    if sum(asked) != engine.gpus:
        yield Finding(
            id="shape-gpus",
            subject=path,
            found=f"{asked[0]} + {asked[1]} GPUs",
            allowed=f"prefillGpus + decodeGpus = {engine.gpus}",
            why=f"the engines of a pod have {engine.gpus} GPU{'' if engine.gpus == 1 else 's'}: dataParallelSize x tensorParallelSize; "
            "the rest would be idle, or missing",
            write=_nearest(asked, engine),
        )
    if any(gpus % each for gpus in asked):
        yield Finding(
            id="shape-divides-an-engine",
            subject=path,
            found=f"prefillGpus {asked[0]}, decodeGpus {asked[1]}",
            allowed=f"multiples of tensorParallelSize, {each}",
            why="an engine has all of its GPUs on one side",
            write=_nearest(asked, engine),
        )
    if engine.release.number < number_of(FIRST_RELEASE):
        yield _old_release(path, engine, server)
    if rank_ports:
        yield Finding(
            id="shape-with-rank-ports",
            subject=path,
            found="(set, with rankPorts)",
            allowed="shape or rankPorts",
            why="behind the pod's router no engine has a port of its own for clients",
            write="remove rankPorts",
        )
    if engine.api_server_count not in (None, engine.data_parallel_size):
        yield Finding(
            id="shape-with-api-servers",
            subject=path,
            found="(set)",
            allowed="left out with apiServerCount",
            why="each engine is a server of its own with one API server",
            write="remove apiServerCount from server.engine, or remove shape",
        )
    if model is not None and EXPERTS in model.parts:
        yield Finding(
            id="shape-of-experts",
            subject=path,
            found="a mixture of experts",
            allowed="models without experts",
            why="ranks of a pod share the experts of one model and step together; apart, each engine would need all of them, which the "
            "check of memory does not count",
            write="remove shape",
        )
    if not any(word.startswith(f"{TRANSFER}=") for word in engine.extra_args):
        yield Finding(
            id="shape-without-connector",
            subject=path,
            found="an engine without a connector",
            allowed="the engine of settings.shaped_engine.shaped",
            why="prefill and decode exchange nothing without one, and every answer is right",
            write="engine=shaped(engine, model)",
        )


def _old_release(path: str, engine: Engine, server: Server | None) -> Finding:
    """A release before the one that was run, said of the key that names it."""
    subject, found = path, f"vLLM {engine.version}"
    write = f"a profile for {FIRST_RELEASE}, such as profile: tuned, or remove shape"
    if server is not None and "version" in server.engine:
        subject, found, write = key("server.engine.version"), engine.version, f"version: {FIRST_RELEASE}"
    if server is not None and server.image.tag is not None:
        # A tag and a version that differ are refused earlier.
        also = f", with engine: {{{write}}}" if "version" in server.engine else ""
        subject, found = key("server.image.tag"), server.image.tag
        write = f"image: {{tag: v{FIRST_RELEASE}}} and its digest{also}"
    right = value("disaggregation.first")["with-drafts" if engine.speculative_tokens else "without-drafts"]
    return Finding(
        id="shape-release",
        subject=subject,
        found=found,
        allowed=f"vLLM {FIRST_RELEASE} or later, with {path.rpartition(':')[2]}",
        why=f"that one was run; of hybrid models the first right one is {right['version']}: {right['why']}; up to 0.30 block-wise FP8 "
        "products of prompts are slow on B200 (vllm-project/vllm#57377)",
        write=write,
    )


def _nearest(asked: tuple[int, int], engine: Engine) -> str:
    """A split of these engines near the one asked for, with its decode if that can be."""
    each = engine.tensor_parallel_size
    if engine.gpus < 2 * each:
        return "remove shape: one engine cannot be split"
    wanted = asked[0] if asked[1] % each else engine.gpus - asked[1]
    prefill = min(max(each, wanted // each * each), engine.gpus - each)
    return f"prefillGpus: {prefill}, decodeGpus: {engine.gpus - prefill}"


def _more_than_decode_holds(settings: Settings) -> Iterator[Finding]:
    load, held = settings.server.needs.concurrency_per_replica, settings.seats
    if held and load and load > held:
        yield Finding(
            id="shape-below-load",
            subject=key("server.needs.concurrencyPerReplica"),
            found=load,
            allowed=f"up to {held:,}: maxNumSeqs {settings.serving.engine.max_num_seqs} on each engine of decode",
            why="a request holds a place in decode until it ends; each router in front lets in as many as decode has places, and more wait",
            write=f"concurrencyPerReplica: {held}, or more decodeGpus, or a higher maxNumSeqs",
            severity="warning",
        )


def _set_twice(settings: Settings) -> Iterator[Finding]:
    engine = settings.server.engine
    written = [str(word).partition("=")[0] for word in engine.get("extraArgs") or ()]
    # vLLM takes underscores in names of options, and the fields of its JSON as options of their own: --kv-transfer-config.kv_role.
    options = [name for name in written if name.replace("_", "-").startswith(TRANSFER)]
    variables = [name for name in engine.get("extraEnv") or {} if name in OWN_VARIABLES]
    for name in (*options, *variables):
        yield Finding(
            id="shape-set-twice",
            subject=key("server.engine.extraArgs" if name in options else "server.engine.extraEnv"),
            found=name,
            allowed="left out with server.shape",
            why="server.shape sets it for prefill and for decode; another value on one side moves nothing, or stops both",
            write=f"remove {name}, or remove shape",
        )
