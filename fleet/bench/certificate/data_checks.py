"""Checks of the requests: unique prompts, lengths, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import expm1, sqrt
from typing import Final

from fleet.bench.certificate import limits
from fleet.bench.certificate.subject import RUN_COMMAND, Blame, Rule, Subject, counted, percent, share
from fleet.bench.folder import AskedWorkload
from fleet.bench.measurement import Check, Run
from fleet.plan.question.profiles import model_shape

PROMPTS: Final = Rule(
    id="prompts",
    title="Prompts are unique",
    allowed=f"random prompts: as many repeated in the whole measurement as vLLM's drawing repeats by chance, plus "
    f"{percent(limits.REPEATED_SHARE)} of all or a quarter of one client's; conversations and traces may repeat",
    why="The server reads a repeated prompt from its prefix cache, which inflates throughput. The usual cause is two clients with one "
    f"seed. Measure with {RUN_COMMAND}: it seeds every client of every run differently and keeps each prompt's hash.",
    blames="data",
)
HITS: Final = Rule(
    id="prefix-hits",
    title="Prefix cache hits fit the workload",
    allowed=f"random prompts: at most {percent(limits.HITS_SHARE, 0)}; a shared prefix: its share of the prompt on top; both plus the "
    f"warm-up's. Conversations and traces: any share, but at most {percent(limits.REPLAYED_SHARE, 0)} where the file was sent again",
    why="From the servers' own counters. Hits on random prompts mean that they were sent before, or that some in a large cache began "
    "alike by chance: measure without prefix caching to be sure. Hits on a file that was sent again are not real traffic: use a longer "
    "file, or lower benchmark.promptsPerClient.",
    blames="data",
    required=False,
)
LENGTHS: Final = Rule(
    id="lengths",
    title="Answers have the requested length",
    allowed="exactly the requested length; where the model may stop by itself, none longer",
    why="Shorter answers leave room for more prompts, which are cheaper, and inflate total tok/s. Check that the server honors ignore_eos "
    "and that prompt and answer fit into --max-model-len.",
    blames="server",
)
FAILURES: Final = Rule(
    id="failures",
    title="Requests succeeded",
    allowed=f"at most {percent(limits.FAILED_SHARE)} failed in each run",
    why="A failed request is load that was not served. Check the servers' logs for http 5xx and cut answers, the request for http 4xx, the "
    "client for open files.",
    blames="server",
)
CONNECTIONS: Final = Rule(
    id="connection-errors",
    title="Connections succeeded",
    allowed=f"at most {percent(limits.FAILED_SHARE)} of requests without a connection, in each run",
    why="A server with a full backlog, or one that restarted, refuses connections. Check the servers' restarts and readiness during the "
    "run, and the gateway's limits.",
    blames="server",
)

_PREFIX_OPTIONS: Final = ("random-prefix-len", "prefix-repetition-prefix-len")
"""Options of `vllm bench serve` for the number of shared tokens."""


def checks(subject: Subject) -> Iterator[Check]:
    """All checks of the requests."""
    yield _prompts(subject)
    yield _hits(subject)
    yield _lengths(subject)
    yield _failures(subject)
    yield _connections(subject)


def _prompts(subject: Subject) -> Check:
    # Over the whole measurement: a prompt of another load also warms the cache.
    prompts = subject.measurement.prompts
    requests = sum(run.completed + run.failed for run in subject.measurement.runs)
    bad, missing = [], []
    workload = subject.asked.workload if subject.asked else None
    repeated = f"{prompts.repeated:,} of {prompts.known:,} prompts had been sent before"
    if workload is None or not workload.of_a_file:
        allowed = _repeats_allowed(subject)
        if not prompts.repeated <= allowed:
            bad.append(f"{repeated}, {allowed:,.0f} allowed")
    if prompts.known < requests or not prompts.known:
        missing.append(
            f"hashes of {requests - prompts.known:,} of {requests:,} prompts are unknown; {RUN_COMMAND} keeps them"
        )
    return PROMPTS.check(
        good=repeated if prompts.repeated else f"{prompts.known:,} prompts, all different", bad=bad, missing=missing
    )


def _repeats_allowed(subject: Subject) -> float:
    """Repeated random prompts that are allowed."""
    measurement = subject.measurement
    known = max(0, measurement.prompts.known)
    a_clients = min((client.completed + client.failed for run in measurement.runs for client in run.clients), default=0)
    excuse = min(limits.REPEATED_SHARE * known, limits.REPEATED_OF_A_CLIENT * a_clients)
    workload = subject.asked.workload if subject.asked else None
    if workload is not None and workload.kind == "shared-prefix":
        return excuse  # drawn word by word: repeats by chance are negligible
    # vLLM's random prompts are consecutive tokens: there are as many as first tokens and lengths. Source: RandomDataset of 0.18.1.
    lengths = max(run.lengths.input_max for run in measurement.runs) - min(
        run.lengths.input_min for run in measurement.runs
    )
    different = _vocabulary(subject) * max(1, lengths + 1)
    mean = known + different * expm1(-known / different)
    return excuse + mean + limits.REPEATED_DEVIATIONS * sqrt(max(0.0, mean))


def _vocabulary(subject: Subject) -> int:
    try:
        return model_shape(subject.asked.shape.model).vocabulary if subject.asked else limits.SMALLEST_VOCABULARY
    except LookupError:
        return limits.SMALLEST_VOCABULARY


def _hits(subject: Subject) -> Check:
    workload = subject.asked.workload if subject.asked else None
    if workload is None:
        return HITS.check(good="", missing=[f"the workload is unknown without run.json; {RUN_COMMAND} writes it"])
    again = share(subject.measurement.prompts.repeated, subject.measurement.prompts.known)
    bad, seen = [], []
    for run, server in subject.servers():
        if server.prefix_hit_share is None:
            continue
        allowed = _replays_allowed(workload, again) if workload.of_a_file else _hits_allowed(workload, run, subject)
        seen.append(server.prefix_hit_share)
        if not server.prefix_hit_share <= allowed:
            reason = f", and {percent(again)} of prompts had been sent before" if workload.of_a_file else ""
            bad.append(
                f"{run.title}: {percent(server.prefix_hit_share)} of prompt tokens were found in the cache, {percent(allowed)} "
                f"allowed{reason}"
            )
    gaps = [] if seen else ["no server counted hits (prefix caching off, or /metrics not read)"]
    return HITS.check(
        good=f"at most {percent(max(seen, default=0.0), 2)} of prompt tokens were found in the cache",
        bad=bad,
        missing=gaps,
    )


def _replays_allowed(workload: AskedWorkload, again: float) -> float:
    """Allowed hits on prompts from a file. The pods send every line once before any again, so repeats mean that the file was too short."""
    # ShareGPT's prompts are made unique first; a trace may hold one several times.
    own = limits.OWN_REPEATS_SHARE if workload.kind == "trace" else limits.REPLAYED_SHARE
    return limits.REPLAYED_SHARE if again > own else 1.0


def _hits_allowed(workload: AskedWorkload, run: Run, subject: Subject) -> float:
    # A client's warm-up sends its first prompt, which is then sent again: one hit for each client.
    asked = subject.asked
    allowed = limits.HITS_SHARE + (1 / asked.prompts_per_client if asked else 0.0)
    if workload.kind != "shared-prefix":
        return allowed
    tokens = next((workload.arguments[name] for name in _PREFIX_OPTIONS if name in workload.arguments), "")
    if not tokens.isdecimal() or not run.lengths.input_mean > 0:
        return 1.0
    return min(1.0, allowed + int(tokens) / run.lengths.input_mean)


def _lengths(subject: Subject) -> Check:
    exact = subject.asked is None or subject.asked.workload.ignore_eos
    bad, unknown, answers = [], 0, 0
    for run in subject.runs:
        lengths = run.lengths
        answers += run.completed
        if lengths.output_longer:
            bad.append(f"{run.title}: {lengths.output_longer:,} of {run.completed:,} answers are longer than requested")
        if exact and lengths.output_shorter:
            bad.append(
                f"{run.title}: {lengths.output_shorter:,} of {run.completed:,} answers are shorter than requested"
            )
        unknown += exact and not lengths.asked_known
    shorter = sum(run.lengths.output_shorter for run in subject.runs)
    good = (
        f"all {answers:,} answers"
        if exact
        else f"{shorter:,} of {answers:,} answers ended before the maximum, which is allowed"
    )
    gap = f"{counted(unknown, len(subject.runs), 'run')} without the length requested of each answer; {RUN_COMMAND} keeps it"
    return LENGTHS.check(good=good, bad=bad, missing=[gap] if unknown else ())


def _failures(subject: Subject) -> Check:
    bad, worst = [], 0.0
    kinds: Counter[str] = Counter()
    for run in subject.runs:
        failed = share(run.failed, run.completed + run.failed)
        worst = max(worst, failed)
        kinds.update({error.kind: error.count for error in run.errors})
        if not failed <= limits.FAILED_SHARE or not run.completed:
            bad.append(
                f"{run.title}: {run.failed:,} of {run.completed + run.failed:,} failed, {percent(failed, 2)} ({_kinds(run)})"
            )
    main = kinds.most_common(1)[0][0] if kinds else "other"
    good = f"at most {percent(worst, 2)} failed in a run" if worst else "none failed"
    return FAILURES.check(good=good, bad=bad, blames=fault(main, subject.saturated is not None))


def _kinds(run: Run) -> str:
    found = ", ".join(
        f"{error.count:,} {error.kind}" for error in sorted(run.errors, key=lambda error: -error.count)[:4]
    )
    example = max(run.errors, key=lambda error: error.count).example if run.errors else ""
    return (found + (f"; {example[:160]}" if example else "")) or "no reason given"


def fault(kind: str, client_saturated: bool) -> Blame:
    """Where failed requests of a kind come from.

    Timeouts, refused connections, cut and unreadable answers come from a slow or restarted server, or from a saturated client.
    """
    if kind == "open files":
        return "client"
    if kind in ("connection", "timeout", "cut", "no json"):
        return "client" if client_saturated else "server"
    if kind.startswith("http 4") and kind != "http 429":
        return "data"
    return "server" if kind.startswith("http") else "data"


def _connections(subject: Subject) -> Check:
    bad, worst = [], 0.0
    for run in subject.runs:
        refused = sum(error.count for error in run.errors if error.kind == "connection")
        found = share(refused, run.completed + run.failed)
        worst = max(worst, found)
        if not found <= limits.FAILED_SHARE:
            example = next(error.example for error in run.errors if error.kind == "connection")
            bad.append(f"{run.title}: {refused:,} requests could not connect ({example[:160]})")
    good = f"at most {percent(worst, 2)} of requests could not connect" if worst else "every request connected"
    return CONNECTIONS.check(good=good, bad=bad, blames=fault("connection", subject.saturated is not None))
