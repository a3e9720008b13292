"""Checks of the servers, from their own /metrics."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Final

from facts.texts import plural
from fleet.bench import cache_configs
from fleet.bench.certificate import limits
from fleet.bench.certificate.subject import Rule, Subject, percent, share
from fleet.bench.measurement import Check, EngineResult, Run, ServerMetrics

SCRAPES: Final = Rule(
    id="scrapes",
    title="Every engine was read",
    allowed=f"all servers and engines of run.json, at most {percent(limits.FAILED_SCRAPES_SHARE, 0)} of readings failed",
    why="The checks below need every engine's metrics: an engine that was not read may have been idle. Check the collector's errors, and "
    "that the network policy lets the benchmark reach every server.",
    blames="data",
)
ENGINES: Final = Rule(
    id="engine-balance",
    title="Load is balanced over the engines",
    allowed=f"tokens of each engine within {percent(limits.ENGINE_BALANCE, 0)} of the mean, more by chance with few connections; "
    f"no queue of {percent(limits.WAITING_SHARE, 0)} of an engine's share while another has none or too few requests",
    why="The article's run crashed with 801 requests queued on one engine beside an idle one. With such imbalance the router limits the "
    "rate. Check replicas that are not Ready, sticky connections, and the gateway's scorers.",
    blames="server",
)
FRONT_END: Final = Rule(
    id="front-end",
    title="Requests reached the engines",
    allowed=f"{percent(limits.REACHED_SHARE, 0)} or more of the requests in flight run or wait on the engines",
    why="Requests in flight that are on no engine wait in an API server process at its core's limit, or in a gateway's queue, and the "
    "first token is late by that wait. Check the CPU of both, and raise apiServerCount: one for about 40,000 tokens/s.",
    blames="server",
)
PREEMPTIONS: Final = Rule(
    id="preemptions",
    title="Engines did not preempt requests",
    allowed=f"at most {percent(limits.PREEMPTED_SHARE, 0)} of the requests that ended in the steady window",
    why="A preempted request is computed again: the KV cache is too small for this load. Lower the load or --max-num-seqs, or enlarge the "
    "cache.",
    blames="server",
)
FOREIGN: Final = Rule(
    id="foreign-traffic",
    title="The servers had no other traffic",
    allowed=f"servers' count of generated tokens within {percent(limits.FOREIGN_SHARE, 0)} of the clients'; prompt tokens per generated "
    f"token, over the steady window, within {percent(limits.FOREIGN_PROMPTS_SHARE, 0)}, two requests and {limits.READINGS_S:g} s of it",
    why="Other requests take time that this measurement does not count: keep users away while it runs. A count below the clients' means "
    "servers that were not read or that restarted: check the collector's errors and the servers' restarts. A difference in prompts alone "
    "means the wrong tokenizer: use the model's.",
    blames="run",
)
CACHES: Final = Rule(
    id="cache-config",
    title="All servers have the same cache configuration",
    allowed=f"the same labels of vllm:cache_config_info on every server, number of blocks within {percent(cache_configs.BLOCKS_SHARE, 0)}",
    why="A server with a smaller cache, for example after a restart with less free memory, slows the fleet down. Restart the one that "
    "differs, and measure again.",
    blames="server",
)

_SHOWN: Final = ("num_gpu_blocks", "block_size", "cache_dtype", "mamba_cache_mode")
"""Labels of vllm:cache_config_info that the check shows."""
_STARVING: Final = 0.5
"""Share of the mean below which an engine starves, however few requests there are."""


def checks(subject: Subject) -> Iterator[Check]:
    """All checks of the servers."""
    yield _scrapes(subject)
    yield _engines(subject)
    yield _front_end(subject)
    yield _preemptions(subject)
    yield _foreign(subject)
    yield _caches(subject)


def _scrapes(subject: Subject) -> Check:
    bad, worst, seen = [], 0.0, 0
    asked = subject.asked
    for run, server in subject.servers():
        failed = share(server.failed_scrapes, server.scrapes)
        worst, seen = max(worst, failed), max(seen, len(server.engines))
        if not failed <= limits.FAILED_SCRAPES_SHARE or not server.scrapes:
            bad.append(f"{run.title}: {server.failed_scrapes:,} of {server.scrapes:,} readings failed")
        if asked is not None and asked.shape.replicas > 0:
            if server.servers != asked.shape.replicas:
                bad.append(f"{run.title}: {server.servers} of {plural(asked.shape.replicas, 'server')} read")
            engines = asked.shape.replicas * asked.engines_per_replica
            if len(server.engines) != engines:
                bad.append(f"{run.title}: {len(server.engines)} of {plural(engines, 'engine')} read")
    good = f"{plural(seen, 'engine')}, {percent(worst)} of readings failed at most"
    return SCRAPES.check(good=good, bad=bad, missing=subject.without_metrics())


def _engines(subject: Subject) -> Check:
    bad, widest = [], 0.0
    for run, server in subject.servers():
        engines = server.engines
        if len(engines) < 2:
            continue
        mean = sum(engine.generation_tokens for engine in engines) / len(engines)
        allowed = engine_spread(run, server)
        for engine in engines:
            off = share(engine.generation_tokens, mean) - 1 if mean else 0.0
            widest = max(widest, abs(off))
            if not abs(off) <= allowed:
                direction = "below" if off < 0 else "above"
                bad.append(
                    f"{run.title}: {_named(engine)} generated {percent(abs(off))} {direction} the mean ({percent(allowed)} allowed)"
                )
        bad += _choking(run, server)
    return ENGINES.check(
        good=f"every engine's tokens within {percent(widest)} of the mean", bad=bad, missing=subject.without_metrics()
    )


def engine_spread(run: Run, server: ServerMetrics) -> float:
    """Allowed distance of an engine's tokens from the mean, as a share: chance, for connections that stick to a random server and requests
    that reach a random engine of it; ENGINE_BALANCE to ENGINE_MOST.
    """
    connections = max(1.0, run.connections / max(1, server.servers))
    served = run.steady.requests_per_s * run.steady.seconds if run.steady else 0.0
    requests = max(1.0, served / max(1, len(server.engines)))
    chance = limits.ENGINE_DEVIATIONS * sqrt(1 / connections + 1 / requests)
    return min(limits.ENGINE_MOST, max(limits.ENGINE_BALANCE, chance))


def _choking(run: Run, server: ServerMetrics) -> Iterator[str]:
    """An engine with a queue, while another has none or runs far fewer requests."""
    should_hold = run.connections / len(server.engines)
    choking = max(server.engines, key=lambda engine: engine.waiting_mean)
    if not choking.waiting_mean > max(limits.WAITING_LEAST, limits.WAITING_SHARE * should_hold):
        return
    queue = f"{run.title}: {_named(choking)} had {choking.waiting_mean:,.0f} requests waiting on average while"
    running = sum(engine.running_mean for engine in server.engines) / len(server.engines)
    starving = min(server.engines, key=lambda engine: engine.running_mean)
    idle = min(server.engines, key=lambda engine: engine.waiting_mean)
    if starving.running_mean < running * (1 - min(engine_spread(run, server), _STARVING)):
        yield f"{queue} {_named(starving)} ran {starving.running_mean:,.0f}; mean of all: {running:,.0f}"
    elif idle.waiting_mean < choking.waiting_mean * limits.IDLE_SHARE:
        yield f"{queue} {_named(idle)} had {idle.waiting_mean:,.0f}"


def _front_end(subject: Subject) -> Check:
    bad, least = [], 1.0
    for run, server in subject.servers():
        if run.in_flight_mean_steady is None:
            continue
        held = sum(engine.running_mean + engine.waiting_mean for engine in server.engines)
        reached = share(held, run.in_flight_mean_steady)
        least = min(least, reached)
        if not reached >= limits.REACHED_SHARE:
            bad.append(
                f"{run.title}: the engines had {held:,.0f} of {run.in_flight_mean_steady:,.0f} requests in flight on average"
            )
    return FRONT_END.check(
        good=f"{percent(least, 0)} or more of those in flight",
        bad=bad,
        missing=subject.without_metrics(),
        # A late client counts requests as in flight that the engines have answered.
        blames="client" if subject.saturated else "server",
    )


def _named(engine: EngineResult) -> str:
    return f"engine {engine.engine} of {engine.server}"


def _preemptions(subject: Subject) -> Check:
    bad, worst = [], 0.0
    for run, server in subject.servers():
        # Both of one window: all requests of the run would hide most of its preemptions.
        window = run.looked_at
        served = window.requests_per_s * window.seconds
        found = share(server.preemptions, served)
        worst = max(worst, found)
        if not found <= limits.PREEMPTED_SHARE:
            bad.append(f"{run.title}: {server.preemptions:,.0f} preemptions while {served:,.0f} requests ended")
    good = f"at most {percent(worst, 2)} of requests" if worst else "none"
    return PREEMPTIONS.check(good=good, bad=bad, missing=subject.without_metrics())


def _foreign(subject: Subject) -> Check:
    bad, worst, worst_prompts = [], 0.0, 0.0
    blames: set[str] = set()
    for run, server in subject.servers():
        ours = run.whole.output_tokens_per_s * run.whole.seconds
        off = share(server.generation_tokens, ours) - 1
        worst = max(worst, abs(off))
        if not abs(off) <= limits.FOREIGN_SHARE:
            blames.add("run" if off > 0 else "data")
            bad.append(
                f"{run.title}: the servers generated {server.generation_tokens:,.0f} tokens, {_beyond(off)} than the clients' {ours:,.0f}"
            )
            continue
        read, sent, allowed = _prompts_per_token(run, server)
        off = share(read, sent) - 1
        worst_prompts = max(worst_prompts, abs(off))
        if not abs(off) <= allowed:
            blames.add("run" if off > 0 else "data")
            bad.append(
                f"{run.title}: the servers read {read:.2f} prompt tokens per generated token in the steady window, {_beyond(off)} than the "
                f"clients' {sent:.2f} (allowed: {percent(allowed)})"
            )
    return FOREIGN.check(
        good=f"within {percent(worst, 2)} of the clients' count, prompts within {percent(worst_prompts, 2)}",
        bad=bad,
        missing=subject.without_metrics(),
        blames="data" if blames == {"data"} else "run",
    )


def _prompts_per_token(run: Run, server: ServerMetrics) -> tuple[float, float, float]:
    """Prompt tokens per generated token by the servers and by the clients, in one window, and the allowed difference as a share."""
    window = run.looked_at
    requests = window.requests_per_s * window.seconds
    return (
        share(
            sum(engine.prompt_tokens for engine in server.engines),
            sum(engine.generation_tokens for engine in server.engines),
        ),
        share(window.input_tokens_per_s, window.output_tokens_per_s),
        limits.FOREIGN_PROMPTS_SHARE
        + (2 / requests if requests > 0 else 0.0)
        + (limits.READINGS_S / window.seconds if window.seconds > 0 else 0.0),
    )


def _beyond(off: float) -> str:
    return f"{percent(abs(off))} {'more' if off > 0 else 'fewer'}"


def _caches(subject: Subject) -> Check:
    bad = [
        f"{run.title}: servers differ in vllm:cache_config_info"
        for run, server in subject.servers()
        if server.cache_configs_differ
    ]
    configs = [server.cache_config for _, server in subject.servers()]
    if cache_configs.differ(configs):
        bad.append("it changed between runs: a server restarted with a different one")
    missing = subject.without_metrics()
    missing += [
        f"{run.title}: no server published its configuration"
        for run, server in subject.servers()
        if not server.cache_config
    ]
    named = [f"{name} {configs[0][name]}" for name in _SHOWN if name in configs[0]] if configs else []
    words = ", ".join(named) or "the same labels"
    return CACHES.check(good=words, bad=bad, missing=missing)
