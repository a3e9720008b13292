"""Checks of `server.shape`: prefill apart from decode, in each pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.model_config import EXPERTS
from facts.releases import number_of
from settings.row import Row
from settings.shaped_engine import FIRST_RELEASE, OWN_VARIABLES, TRANSFER

if TYPE_CHECKING:
    from settings.stack import Settings

_GPUS = Row(
    "shape-gpus",
    "the engines of a pod have dataParallelSize x tensorParallelSize GPUs; the rest would be idle, or missing",
    "prefillGpus and decodeGpus with that sum, or no shape",
)
_HALVES = Row(
    "shape-divides-an-engine",
    "an engine has all of its GPUs on one side",
    "multiples of tensorParallelSize, or no shape",
)
_RELEASE = Row(
    "shape-release",
    "that release was run; earlier ones give wrong answers with hybrid models, or are slow with FP8 prompts on B200 "
    "(facts/data/disaggregation.yaml, vllm-project/vllm#57377)",
    f"profile: tuned, or version and image of {FIRST_RELEASE}",
)
_RANK_PORTS = Row(
    "shape-with-rank-ports",
    "behind the pod's router no engine has a port of its own for clients",
    "remove rankPorts",
)
_API_SERVERS = Row(
    "shape-with-api-servers",
    "each engine is a server of its own with one API server",
    "remove apiServerCount from server.engine, or remove shape",
)
_EXPERTS = Row(
    "shape-of-experts",
    "ranks of a pod share the experts of one model and step together; apart, each engine would need all of them, which the check of memory "
    "does not count",
    "remove shape",
)
_NO_PROXY = Row(
    "shape-without-proxy",
    "the pods' router checks no key, takes servers in and out for anyone who asks, and answers a dead server with its address; HAProxy "
    "checks keys, passes only /v1 and replaces such answers",
    "endpoint: {kind: leastRequest}",
)
_CANARY = Row(
    "shape-of-a-canary",
    "a canary has no shape of its own, so `fleet rollout judge` would compare engines of two kinds",
    "remove shape while there is a canary, or upgrade without a canary",
)
_SEATS = Row(
    "shape-below-load",
    "a request holds a place in decode until it ends; each router in front lets in as many as decode has places, and more wait",
    "a lower concurrencyPerReplica, more decodeGpus, or a higher maxNumSeqs",
    "warning",
)
_TWICE = Row(
    "shape-set-twice",
    "server.shape sets it for prefill and for decode; another value on one side moves nothing, or stops both",
    "remove it, or remove shape",
)


def split_problems(settings: Settings) -> Iterator[Finding]:
    """Every reason why this stack's pods cannot be split so."""
    path, server, serving = "server.shape", settings.server, settings.serving
    shape, engine, model = server.shape, serving.engine, serving.shape
    if shape is None:
        return
    asked, each = (shape.prefill_gpus, shape.decode_gpus), engine.tensor_parallel_size
    found = f"prefillGpus {asked[0]}, decodeGpus {asked[1]}"
    if sum(asked) != engine.gpus:
        yield _GPUS(path, found, f"prefillGpus + decodeGpus = {engine.gpus}")
    if any(gpus % each for gpus in asked):
        yield _HALVES(path, found, f"multiples of tensorParallelSize, {each}")
    if engine.release.number < number_of(FIRST_RELEASE):
        yield _RELEASE(path, f"vLLM {engine.version}", f"left out before vLLM {FIRST_RELEASE}")
    if server.rank_ports:
        yield _RANK_PORTS(path, "(set, with rankPorts)", "shape or rankPorts")
    if engine.api_server_count not in (None, engine.data_parallel_size):
        yield _API_SERVERS(path, "(set)", "left out with apiServerCount")
    if model is not None and EXPERTS in model.parts:
        yield _EXPERTS(path, "a mixture of experts", "models without experts")
    yield from _set_twice(settings)
    if settings.endpoint_kind != "leastRequest":
        yield _NO_PROXY("endpoint.kind", settings.endpoint_kind, "leastRequest with server.shape")
    if settings.rollout.canary is not None:
        yield _CANARY(path, "(set)", "left out with rollout.canary")
    load, held = server.needs.concurrency_per_replica, settings.seats
    if held and load and load > held:
        allowed = f"up to {held:,}: maxNumSeqs {serving.engine.max_num_seqs} on each engine of decode"
        yield _SEATS("server.needs.concurrencyPerReplica", load, allowed)


def _set_twice(settings: Settings) -> Iterator[Finding]:
    engine = settings.server.engine
    written = [str(word).partition("=")[0] for word in engine.get("extraArgs") or ()]
    # vLLM takes underscores in names of options, and the fields of its JSON as options of their own: --kv-transfer-config.kv_role.
    for name in (name for name in written if name.replace("_", "-").startswith(TRANSFER)):
        yield _TWICE("server.engine.extraArgs", name, "left out with server.shape")
    for name in (name for name in engine.get("extraEnv") or {} if name in OWN_VARIABLES):
        yield _TWICE("server.engine.extraEnv", name, "left out with server.shape")
