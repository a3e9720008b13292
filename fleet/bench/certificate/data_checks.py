"""Were the requests what they should be? Prompts sent once, lengths honoured, nothing failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import expm1, sqrt
from typing import Final

from fleet.bench.certificate import limits
from fleet.bench.certificate.subject import RUN_COMMAND, Blame, Rule, Subject, counted, percent, share
from fleet.bench.folder import AskedWorkload
from fleet.bench.measurement import Check, Run

PROMPTS: Final = Rule(
    id="prompts",
    title="Prompts were not sent twice",
    allowed=f"random prompts: as many twice in the measurement, by any client in any run, as vLLM's drawing repeats by chance, and "
    f"{percent(limits.REPEATED_SHARE)} of all or a quarter of one client's; conversations and traces may repeat theirs",
    why="A prompt that the server has seen is read from its prefix cache: throughput that no customer gets. The usual reason is two "
    f"clients with one seed. Measure with {RUN_COMMAND}, which gives every client of every run its own and keeps each prompt's hash.",
    blames="data",
)
HITS: Final = Rule(
    id="prefix-hits",
    title="Prefix hits fit the workload",
    allowed=f"random prompts: at most {percent(limits.HITS_SHARE, 0)}; a shared prefix: its share of the prompt on top; each with what the "
    f"warm-up leaves behind. Conversations and traces: whatever they share, but at most {percent(limits.REPLAYED_SHARE, 0)} where the file "
    "was sent again",
    why="The servers' own counters, against the hashes. Hits on random prompts: somebody sent them before, or the cache holds so many that "
    "some began alike by chance; measure without prefix caching to be sure. Hits on a file that was sent again are nobody's traffic: "
    "give a longer file, or lower benchmark.promptsPerClient.",
    blames="data",
    required=False,
)
LENGTHS: Final = Rule(
    id="lengths",
    title="Answers are as long as asked",
    allowed="every answer of exactly the asked length; where the model may stop by itself, none longer",
    why="Shorter answers leave room for more prompts, which are cheaper: total tok/s rises for nothing. Look whether the server "
    "honours ignore_eos, and give --max-model-len room for prompt and answer.",
    blames="server",
)
FAILURES: Final = Rule(
    id="failures",
    title="Requests succeeded",
    allowed=f"at most {percent(limits.FAILED_SHARE)} failed in each run",
    why="A failed request is load that was not served, and often one that was refused in no time. The kinds say who failed: look at the "
    "servers' logs for http 5xx and cut answers, at the request for http 4xx, at the client for open files.",
    blames="server",
)
CONNECTIONS: Final = Rule(
    id="connection-errors",
    title="Connections held",
    allowed=f"at most {percent(limits.FAILED_SHARE)} of requests without a connection, in each run",
    why="A server whose backlog is full or that went away refuses connections; so does a client without files or ports, which has "
    "checks of its own. Look at the servers' restarts and readiness during the run, and at the gateway's limits.",
    blames="server",
)

_PREFIX_OPTIONS: Final = ("random-prefix-len", "prefix-repetition-prefix-len")
"""Options of `vllm bench serve` that say how many tokens of a prompt are shared."""


def checks(subject: Subject) -> Iterator[Check]:
    """All checks of the requests."""
    yield _prompts(subject)
    yield _hits(subject)
    yield _lengths(subject)
    yield _failures(subject)
    yield _connections(subject)


def _prompts(subject: Subject) -> Check:
    # Over the whole measurement: a prompt of another load warms the cache as well.
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
            f"the hashes of {requests - prompts.known:,} of {requests:,} prompts are not known; {RUN_COMMAND} keeps them"
        )
    return PROMPTS.says(
        good=repeated if prompts.repeated else f"{prompts.known:,} prompts, no two alike", bad=bad, missing=missing
    )


def _repeats_allowed(subject: Subject) -> float:
    """How many random prompts may have been sent before although every client drew its own."""
    measurement = subject.measurement
    known = max(0, measurement.prompts.known)
    a_clients = min((client.completed + client.failed for run in measurement.runs for client in run.clients), default=0)
    excuse = min(limits.REPEATED_SHARE * known, limits.REPEATED_OF_A_CLIENT * a_clients)
    workload = subject.asked.workload if subject.asked else None
    if workload is not None and workload.kind == "shared-prefix":
        return excuse  # words drawn one by one, which never meet
    # vLLM's random prompts are consecutive tokens: there are as many as first tokens and lengths. Source: RandomDataset of 0.18.1.
    lengths = max(run.lengths.input_max for run in measurement.runs) - min(
        run.lengths.input_min for run in measurement.runs
    )
    different = _vocabulary(subject) * max(1, lengths + 1)
    mean = known + different * expm1(-known / different)
    return excuse + mean + limits.REPEATED_DEVIATIONS * sqrt(max(0.0, mean))


def _vocabulary(subject: Subject) -> int:
    from fleet.plan.question.profiles import model_shape

    try:
        return model_shape(subject.asked.shape.model).vocabulary if subject.asked else limits.SMALLEST_VOCABULARY
    except LookupError:
        return limits.SMALLEST_VOCABULARY


def _hits(subject: Subject) -> Check:
    workload = subject.asked.workload if subject.asked else None
    if workload is None:
        return HITS.says(good="", missing=[f"the workload is not known; {RUN_COMMAND} writes it down"])
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
    gaps = [] if seen else ["no server counted them (prefix caching off, or /metrics not read)"]
    return HITS.says(
        good=f"at most {percent(max(seen, default=0.0), 2)} of prompt tokens were found in the cache",
        bad=bad,
        missing=gaps,
    )


def _replays_allowed(workload: AskedWorkload, again: float) -> float:
    """Of prompts from a file: the pods send every line once before they send any again, so repeats tell that the file was too short."""
    # ShareGPT's are made unique before; a trace may hold the same prompt several times.
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
            bad.append(f"{run.title}: {lengths.output_longer:,} of {run.completed:,} answers are longer than asked")
        if exact and lengths.output_shorter:
            bad.append(f"{run.title}: {lengths.output_shorter:,} of {run.completed:,} answers are shorter than asked")
        unknown += exact and not lengths.asked_known
    shorter = sum(run.lengths.output_shorter for run in subject.runs)
    good = (
        f"all {answers:,} answers"
        if exact
        else f"{shorter:,} of {answers:,} answers ended before the longest that was asked, as they may"
    )
    gap = f"{counted(unknown, len(subject.runs), 'run')} without what was asked of each request; {RUN_COMMAND} keeps it"
    return LENGTHS.says(good=good, bad=bad, missing=[gap] if unknown else ())


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
    return FAILURES.says(good=good, bad=bad, blames=fault(main, subject.saturated is not None))


def _kinds(run: Run) -> str:
    found = ", ".join(
        f"{error.count:,} {error.kind}" for error in sorted(run.errors, key=lambda error: -error.count)[:4]
    )
    example = max(run.errors, key=lambda error: error.count).example if run.errors else ""
    return (found + (f"; {example[:160]}" if example else "")) or "no reason given"


def fault(kind: str, client_saturated: bool) -> Blame:
    """Who is to blame for failed requests of a kind.

    A server that is slow, busy or gone times out, refuses and cuts. The same is seen from a client that does not come to
    read its answers; whether it was one, its own CPU and event loop say.
    """
    if kind == "open files":
        return "client"
    if kind in ("connection", "timeout", "cut"):
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
            bad.append(f"{run.title}: {refused:,} requests found no connection ({example[:160]})")
    good = f"at most {percent(worst, 2)} of requests found no connection" if worst else "every request found one"
    return CONNECTIONS.says(good=good, bad=bad, blames=fault("connection", subject.saturated is not None))
