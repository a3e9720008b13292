"""The clients of one run: each result with its number and witness, checked against the others and run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from fleet.bench.folder import CLIENT_FILE, MOST_CLIENTS, Asked, PodCourse, Witness
from fleet.bench.merge.client_data import ClientData, Ints
from fleet.bench.merge.client_file import OTHER_COUNT_SHARE
from fleet.bench.merge.clocks import MAX_DRIFT_SECONDS, Clocks, drift
from fleet.bench.merge.layout import Choice, Layout, RunFiles, read_file
from fleet.bench.merge.problems import Problem, merge_command
from fleet.bench.merge.reading import Reader

_BEYOND_SECONDS: Final = 1.0
"""By how much a request may lie outside its witness' two readings, which are taken before the first and after the last."""
_SAME: Final = {
    "run": "other-run",
    "workload": "other-workload",
    "point": "other-point",
    "repeat": "other-point",
    "clients": "other-load",
}
"""Metadata that all clients of a run share, and the reason when one does not."""


@dataclass
class Client:
    """One client of a run."""

    number: int
    data: ClientData
    witness: Witness | None = None
    hashes: npt.NDArray[np.uint64] | None = None


@dataclass
class Seen:
    """What earlier runs of the measurement held, so that nothing is counted twice."""

    seeds: dict[str, str] = field(default_factory=dict)
    digests: dict[bytes, str] = field(default_factory=dict)


@dataclass
class RunClients:
    """What was read of one run."""

    clients: list[Client]
    pods: list[PodCourse]
    problems: list[Problem]
    witness_problems: list[Problem]
    """Of files that may be left out without their clients."""


def load(run: RunFiles, layout: Layout, read: Reader, seen: Seen, choice: Choice) -> RunClients:
    """Read and check every client of a run."""
    shown = [(path, layout.shown(path)) for path in run.results]
    clients: list[Client] = []
    problems: list[Problem] = []
    for (path, _), (results, found) in zip(shown, read(shown), strict=True):
        problems += found
        for data in results:
            if ":" in data.file and choice.leaves_out(data.file):  # one result of a file of several
                continue
            number, wrong = _number(data, path, len(clients))
            problems += wrong
            clients.append(Client(number=number, data=data))
    problems += _doubles(clients, seen)
    problems += _mixed(clients, run, layout.asked)
    witnesses: list[Problem] = []
    for path in run.witnesses:
        witnesses += _add_witness(path, layout, clients)
    pods: list[PodCourse] = []
    for path in run.pods:
        pod, found = read_file(path, layout.shown(path), PodCourse)
        witnesses += found
        if pod is not None:
            pods.append(pod)
    return RunClients(
        clients=sorted(clients, key=lambda client: client.number),
        pods=sorted(pods, key=lambda pod: pod.pod),
        problems=problems,
        witness_problems=witnesses,
    )


def _number(data: ClientData, path: Path, place: int) -> tuple[int, list[Problem]]:
    match = CLIENT_FILE.fullmatch(path.name)
    named = int(match["client"]) if match else None
    problems = [
        Problem(
            file=data.file,
            reason="bad-number",
            found=f"{key} is {text[:40]!r}",
            allowed=f"a whole number from 0 to {MOST_CLIENTS:,}",
        )
        for key in ("client", "clients")
        if (text := data.metadata.get(key)) is not None and small_number(text, MOST_CLIENTS) is None
    ]
    text = data.metadata.get("client")
    if problems or text is None:
        return named if named is not None else place, problems
    if named is not None and named != int(text):
        return named, [
            Problem(
                file=data.file,
                reason="other-client",
                found=f"client is {text}, its name says {named}",
                allowed="the client's number in the file's name",
                todo="rename it back",
            )
        ]
    return int(text), []


def small_number(text: str, most: int) -> int | None:
    """A text as a whole number from 0 to `most`; None for any other text."""
    number = int(text) if text.isdecimal() and len(text) <= len(str(most)) else -1
    return number if 0 <= number <= most else None


def _doubles(clients: Sequence[Client], seen: Seen) -> list[Problem]:
    problems = []
    numbers: dict[int, str] = {}
    for client in clients:
        data = client.data
        same = seen.digests.setdefault(data.digest, data.file)
        if same != data.file:
            problems.append(
                Problem(
                    file=data.file,
                    reason="same-content",
                    found=f"all times to first token equal those of {same}",
                    allowed="a different client or run in every file",
                )
            )
            continue
        first = numbers.setdefault(client.number, data.file)
        if first != data.file:
            problems.append(
                Problem(
                    file=data.file,
                    reason="same-client",
                    found=f"client is {client.number}, as in {first}",
                    allowed="each client once in a run",
                )
            )
        seed = data.metadata.get("seed")
        if seed is not None and (first := seen.seeds.setdefault(seed, data.file)) != data.file:
            problems.append(
                Problem(
                    file=data.file,
                    reason="same-seed",
                    found=f"seed is {seed}, as in {first}",
                    allowed="a different seed for each client of each run",
                    todo="the same seed draws the same prompts, which the prefix cache answers",
                )
            )
    return problems


def _mixed(clients: Sequence[Client], run: RunFiles, asked: Asked | None) -> list[Problem]:
    """Results of another run, point, workload, model or load."""
    expected: dict[str, tuple[str, str]] = {}
    if asked is not None:
        expected = {"workload": (asked.workload.name, "run.json"), "model_id": (asked.served_model, "run.json")}
        if asked.name:
            expected["run"] = (asked.name, "run.json")
        if run.point < len(asked.points):
            expected["clients"] = (str(asked.points[run.point].clients), "run.json")
    if not run.bare:
        expected |= {"point": (str(run.point), "the folder's name"), "repeat": (str(run.repeat), "the folder's name")}
    values = {key: [client.data.metadata.get(key) for client in clients] for key in _SAME}
    values["model_id"] = [client.data.model for client in clients]
    problems = []
    for key, found in values.items():
        known = Counter(value for value in found if value is not None)
        if key not in expected and len(known) > 1:
            expected[key] = (known.most_common(1)[0][0], "most of the other files")
        if key not in expected:
            continue
        allowed, source = expected[key]
        for client, value in zip(clients, found, strict=True):
            if value is not None and value != allowed:
                problems.append(
                    Problem(
                        file=client.data.file,
                        reason=_SAME.get(key, "other-model"),
                        found=f"{key} is {value!r}",
                        allowed=f"{allowed!r}, as in {source}",
                    )
                )
    return problems + _other_load(clients, run, asked)


def _other_load(clients: Sequence[Client], run: RunFiles, asked: Asked | None) -> list[Problem]:
    if asked is None:
        return []
    problems = []
    for client in clients:
        if client.data.requests != asked.prompts_per_client:
            problems.append(
                Problem(
                    file=client.data.file,
                    reason="other-load",
                    found=f"{client.data.requests} requests",
                    allowed=f"{asked.prompts_per_client} of each client, as in run.json",
                )
            )
    if run.point >= len(asked.points):
        return problems
    point = asked.points[run.point]
    share = -(-point.connections // point.clients)
    for client in clients:
        most = client.data.max_concurrency
        if most is not None and not share - 1 <= most <= share:
            problems.append(
                Problem(
                    file=client.data.file,
                    reason="other-load",
                    found=f"max_concurrency is {most}",
                    allowed=f"{point.connections} connections over {point.clients} clients, as in run.json at point {run.point}",
                )
            )
    return problems


def _add_witness(path: Path, layout: Layout, clients: Iterable[Client]) -> list[Problem]:
    shown = layout.shown(path)
    witness, problems = read_file(path, shown, Witness)
    if witness is None:
        return problems
    stem = path.name.removesuffix(".witness.json")
    client = next((one for one in clients if Path(one.data.file.partition(":")[0]).stem == stem), None)
    if client is None:
        return []  # the missing or excluded client is reported itself

    def problem(reason: str, found: str, allowed: str, todo: str = "") -> Problem:
        return Problem(file=shown, reason=reason, found=found, allowed=allowed, todo=todo)

    data, seed = client.data, client.data.metadata.get("seed")
    lists = (witness.prompt_hashes, witness.asked_input_tokens, witness.asked_output_tokens)
    if witness.client != client.number:
        problems.append(
            problem("other-witness", f"client is {witness.client}", f"{client.number}, as in the file's name")
        )
    if seed is not None and seed != str(witness.seed):
        problems.append(problem("other-witness", f"seed is {witness.seed}", f"{seed}, as in its result"))
    if any(len(list_) != data.requests for list_ in lists):
        found = f"{', '.join(str(len(list_)) for list_ in lists)} prompts and lengths"
        problems.append(problem("other-witness", found, f"{data.requests}, as in its result"))
    elif (off := _counted_otherwise(data.input_lens, witness.asked_input_tokens)) > OTHER_COUNT_SHARE:
        allowed = f"its result's input_lens to {100 * OTHER_COUNT_SHARE:g} %"
        problems.append(problem("other-witness", f"asked_input_tokens are off by {100 * off:.1f} %", allowed))
    samples = witness.samples
    if len({len(one) for one in (samples.at, samples.cpu_share, samples.loop_lag_ms, samples.open_files)}) > 1:
        problems.append(problem("uneven-lists", "lists of samples differ in length", "one entry a second in each"))
    began, ended = witness.clock.perf_counter - _BEYOND_SECONDS, witness.clock_at_end.perf_counter + _BEYOND_SECONDS
    if not began <= data.first <= data.last <= ended:
        problems.append(
            problem(
                "other-witness",
                f"its monotonic clock ran from {began + _BEYOND_SECONDS:.3f} to {ended - _BEYOND_SECONDS:.3f}",
                f"its result's requests, from {data.first:.3f} to {data.last:.3f}",
                "the files are of two processes or two boots",
            )
        )
    moved = drift(witness)
    if abs(moved) > MAX_DRIFT_SECONDS:
        problems.append(
            problem(
                "clock-drift",
                f"wall and monotonic clock moved by {moved:+.3f} s against each other",
                f"at most {MAX_DRIFT_SECONDS:g} s in a run",
                "the node's clock was set during the run, so its times cannot be aligned",
            )
        )
    try:
        hashes = np.frombuffer(bytes.fromhex("".join(witness.prompt_hashes)), dtype=">u8").astype(np.uint64)
        if len(hashes) != len(witness.prompt_hashes):
            raise ValueError
    except ValueError:
        problems.append(problem("bad-number", "prompt_hashes has other text", "16 hexadecimal digits a prompt"))
    else:
        client.hashes = hashes
    client.witness = witness
    return problems


def _counted_otherwise(counted: Ints, asked: Sequence[int]) -> float:
    """Difference of two equally long lists of lengths, as a share of the second."""
    return float(np.abs(counted - np.asarray(asked)).sum() / max(1, sum(asked)))


def missing_clients(
    run: RunFiles, layout: Layout, clients: Sequence[Client], pods: Sequence[PodCourse], left_out: Iterable[str]
) -> list[Problem]:
    """One problem for all missing clients that were not excluded."""
    told = {small_number(client.data.metadata.get("clients", ""), MOST_CLIENTS) or 0 for client in clients}
    wanted = max(told, default=0)
    if layout.asked is not None and run.point < len(layout.asked.points):
        wanted = layout.asked.points[run.point].clients
    there = {client.number for client in clients}
    for file in left_out:
        match = CLIENT_FILE.fullmatch(file.rpartition("/")[2].partition(":")[0])
        if match:
            there.add(int(match["client"]))
    missing = [number for number in range(wanted) if number not in there]
    if not missing:
        return []
    codes = {number: pod.exit_codes[str(number)] for pod in pods for number in missing if str(number) in pod.exit_codes}
    ended = "; ".join(f"client {number} ended with exit code {code}" for number, code in codes.items())
    return [
        Problem(
            file=run.name,
            reason="missing",
            can_exclude=False,
            found=f"{len(missing)} of {wanted} clients are missing: {', '.join(map(str, missing[:12]))}"
            + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
            + (f" ({ended})" if ended else ""),
            allowed="all clients of run.json",
            todo=f"download their files, or merge without them: {merge_command(layout.folder)} --allow-missing",
        )
    ]


def odd_ends(clients: Iterable[Client], pods: Iterable[PodCourse]) -> list[str]:
    """Remarks on clients with a result and an error at their end."""
    there = {client.number for client in clients}
    return [
        f"client {number} has a result and ended with exit code {code}; see its log"
        for pod in pods
        for number, code in pod.exit_codes.items()
        if code != 0 and small_number(number, MOST_CLIENTS) in there
    ]


def apart(clients: Sequence[Client], clocks: Clocks) -> list[Problem]:
    """Clients whose requests overlap fewer than half of the others'."""
    spans = [
        (clock.at(client.data.first) - clocks.uncertainty_s, clock.at(client.data.last) + clocks.uncertainty_s)
        for client, clock in zip(clients, clocks.clocks, strict=True)
    ]
    problems = []
    for number, (client, (first, last)) in enumerate(zip(clients, spans, strict=True)):
        met = sum(first < end and begin < last for place, (begin, end) in enumerate(spans) if place != number)
        if 2 * met < len(spans) - 1:
            earliest = min(begin for begin, _ in spans)
            problems.append(
                Problem(
                    file=client.data.file,
                    reason="no-overlap",
                    found=f"its requests ran from {first - earliest:.1f} to {last - earliest:.1f} s of the run and overlap those of "
                    f"{met} of {len(spans) - 1} other clients",
                    allowed="all clients of a run at the same time",
                )
            )
    return problems
