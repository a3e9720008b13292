"""From a folder to a measurement."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import RUN_FOLDER, Asked, AskedSlo, DcgmSeries, MetricsSample
from fleet.bench.measurement import Estimate, Measurement, MergeOptions, Point, Prompts, Rates, Run
from fleet.bench.merge import clocks
from fleet.bench.merge.gpus import GpuSeries, of_dcgm
from fleet.bench.merge.layout import Choice, Layout, RunFiles, find, is_result, read_file
from fleet.bench.merge.problems import Problem, merge_command, refuse
from fleet.bench.merge.reading import Reader, reader
from fleet.bench.merge.run_clients import Client, RunClients, Seen, apart, load, missing_clients, odd_ends
from fleet.bench.merge.run_figures import Pool, Surroundings, run_figures
from fleet.bench.merge.servers import read_samples
from fleet.bench.repeats import estimate, overlapping


def merge_folder(folder: Path, options: MergeOptions | None = None) -> Measurement:
    """Merge a measurement's folder, one run's, or one of bare results.

    Raises BenchmarkError with every file that cannot be merged and why, and for an option that leaves nothing out.
    """
    options = options or MergeOptions()
    choice = Choice(options.exclude, folder)
    layout = find(folder, choice, allow_missing=options.allow_missing)
    merge = _Merge(layout=layout, choice=choice, options=options, problems=choice.sift(layout.problems))
    merge.note_missing_runs()
    if not any(run.results for run in layout.runs):
        refuse(folder, merge.problems)
        merge.require_some_left()
        raise BenchmarkError(
            f"{folder} has no client's result; pass the folder of a measurement (run.json and point-PP-repeat-R folders) or one "
            "with the files of `vllm bench serve --save-result --save-detailed`"
        )
    merge.read_gpus()
    points: list[Point] = []
    with reader([path for run in layout.runs for path in run.results]) as read:
        for number, run in enumerate(layout.runs):
            merge.add_run(run, read)
            after = layout.runs[number + 1 :]
            if merge.of_point and not (after and after[0].point == run.point):
                points.append(merge.end_point())
    results = {layout.shown(path) for run in layout.runs for path in run.results}
    refuse(folder, merge.problems, results - choice.excluded.keys())
    choice.check_used(folder)
    if not merge.runs:
        raise BenchmarkError(
            f"{folder}: every client of every run is excluded ({len(choice.excluded)} files); exclude fewer"
        )
    return Measurement(
        asked=layout.asked,
        runs=tuple(merge.runs),
        points=tuple(points),
        prompts=merge.prompts(),
        excluded=choice.notes(),
        remarks=tuple(dict.fromkeys(merge.remarks)),
    )


@dataclass
class _Merge:
    """State of a merge, run by run."""

    layout: Layout
    choice: Choice
    options: MergeOptions
    problems: list[Problem]
    runs: list[Run] = field(default_factory=list)
    of_point: list[Run] = field(default_factory=list)
    pool: Pool = field(default_factory=Pool)
    remarks: list[str] = field(default_factory=list)
    hashes: list[np.typing.NDArray[np.uint64]] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    gpus: list[GpuSeries] = field(default_factory=list)
    gpu_problem: str | None = None

    def require_some_left(self) -> None:
        """Raise BenchmarkError where `--exclude` matches every result."""
        bare = any(run.bare for run in self.layout.runs)
        lost = [name for name in self.choice.excluded if RUN_FOLDER.fullmatch(name) or is_result(name, bare=bare)]
        if lost:
            patterns = " ".join(f"--exclude {shlex.quote(text)}" for text in self.options.exclude)
            raise BenchmarkError(f"{self.layout.folder}: {patterns} excludes every client's result; exclude fewer")

    def note_missing_runs(self) -> None:
        """Runs of run.json without a folder, and folders that are not in run.json."""
        asked = self.layout.asked
        if asked is None or self.layout.single:
            return
        there = {(run.point, run.repeat) for run in self.layout.runs}
        left_out = set(self.choice.excluded)
        for run in self.layout.runs:
            if run.point >= len(asked.points) or run.repeat >= asked.repeats:
                self._problem(
                    run.name, "other-point", "run.json has no such run",
                    f"{len(asked.points)} points of {asked.repeats} repeats", can_exclude=False,
                    todo=f"exclude the folder: --exclude {run.name}",
                )  # fmt: skip
        names = [f"point-{point:02d}-repeat-{repeat}" for point in range(len(asked.points)) for repeat in range(asked.repeats)
                 if (point, repeat) not in there]  # fmt: skip
        names = [name for name in names if name not in left_out]
        if names:
            self._missing(
                "run.json",
                f"{len(names)} of {len(asked.points) * asked.repeats} runs are missing: {', '.join(names)}",
                "all repeats, for the confidence interval",
            )

    def _problem(
        self, file: str, reason: str, found: str, allowed: str, *, todo: str = "", can_exclude: bool = True
    ) -> None:
        problem = Problem(file=file, reason=reason, found=found, allowed=allowed, todo=todo, can_exclude=can_exclude)
        self.problems += self.choice.sift([problem])

    def _missing(self, file: str, found: str, allowed: str) -> None:
        if self.options.allow_missing:
            self.remarks.append(f"merged although {found}")
        else:
            todo = f"download them, or merge without: {merge_command(self.layout.folder)} --allow-missing"
            self._problem(file, "missing", found, allowed, todo=todo, can_exclude=False)

    def read_gpus(self) -> None:
        """All GPU readings of the measurement."""
        if self.layout.dcgm is not None:
            file, problems = read_file(self.layout.dcgm, self.layout.shown(self.layout.dcgm), DcgmSeries)
            self.problems += self.choice.sift(problems)
            if file is not None:
                self.gpus, self.gpu_problem = of_dcgm(file), file.problem

    def add_run(self, files: RunFiles, read: Reader) -> None:
        """Read and check one run; compute it while no problem was found."""
        loaded = load(files, self.layout, read, self.seen, self.choice)
        clients = self._kept(loaded)
        samples: list[MetricsSample] = []
        if files.metrics is not None:
            samples, problems = read_samples(files.metrics, self.layout.shown(files.metrics))
            self.problems += self.choice.sift(problems)
        if files.results:
            self._check_missing(files, loaded, clients)
        if not clients:
            if files.results and not loaded.problems:
                self._problem(
                    files.name, "missing", "every client is excluded", "at least one client", can_exclude=False
                )
            elif not files.results:
                self._missing(files.name, f"{files.name} has no client's result", "one file a client")
            elif not self.problems:
                self.remarks.append(f"{files.name} is excluded, since all its clients are")
            return
        laid = self._lay(clients)
        loose = self.choice.sift(apart(clients, laid))
        self.problems += loose
        left = [client for client in clients if not self._left_out(client)]
        if len(left) < len(clients):
            clients, laid = left, self._lay(left) if left else laid
        if not clients:
            self.remarks.append(f"{files.name} is excluded, since all its clients are")
        if self.problems or not clients:
            return
        asked = self.layout.asked
        run, pool, remarks = run_figures(
            files, clients, laid,
            Surroundings(
                pods=loaded.pods, samples=samples, gpus=self.gpus, gpu_problem=self.gpu_problem,
                expected_gpus=asked.shape.replicas * asked.shape.gpus_per_replica if asked else None,
                slo=_limits(self.options.slo or (asked.slo if asked else None)),
            ),
        )  # fmt: skip
        remarks += odd_ends(clients, loaded.pods)
        several = len(self.layout.runs) > 1
        self.remarks += [f"{run.title}: {text}" if several else text for text in remarks]
        if any(client.data.counts_speculation for client in clients) and run.server is None:
            self.remarks.append(
                "speculation figures in the clients' files are not shown, since each includes every client's traffic; collect the "
                "servers' /metrics for the acceptance rate"
            )
        if with_ := overlapping([*self.runs, run]):
            self._problem(
                files.name, "overlap", f"it lies in the time of {with_[0].name}", "runs one after the other", can_exclude=False,
                todo=f"exclude one of them: --exclude {files.name}",
            )  # fmt: skip
            return
        self.runs.append(run)
        self.of_point.append(run)
        self.pool.add_pool(pool)
        self.hashes += [client.hashes for client in clients if client.hashes is not None]

    def _kept(self, loaded: RunClients) -> list[Client]:
        """Clients without the excluded ones."""
        self.problems += self.choice.sift(loaded.problems)
        self.problems += self.choice.sift(loaded.witness_problems)
        for client in loaded.clients:
            stem = client.data.file.partition(":")[0].removesuffix(".json")
            if f"{stem}.witness.json" in self.choice.excluded:
                client.witness = client.hashes = None
        return [client for client in loaded.clients if not self._left_out(client)]

    def _left_out(self, client: Client) -> bool:
        return client.data.file in self.choice.excluded

    def _check_missing(self, files: RunFiles, loaded: RunClients, clients: Sequence[Client]) -> None:
        mine = [
            file
            for file in self.choice.excluded
            if files.bare or self.layout.single or file.startswith(f"{files.name}/")
        ]
        broken = [problem.file for problem in loaded.problems]  # reported already
        for problem in missing_clients(files, self.layout, clients, loaded.pods, [*mine, *broken]):
            if self.options.allow_missing:
                self.remarks.append(f"{files.name}: merged although {problem.found}")
            else:
                self.problems.append(problem)
        lost = sum(is_result(file, bare=files.bare) for file in mine)
        if lost and clients:
            left_out = "1 result is excluded" if lost == 1 else f"{lost} results are excluded"
            self.remarks.append(f"{files.name}: {left_out}, so the run's rates are too low")

    def _lay(self, clients: Sequence[Client]) -> clocks.Clocks:
        witnesses = {client.data.file: client.witness for client in clients if client.witness is not None}
        return clocks.lay([client.data for client in clients], witnesses)

    def end_point(self) -> Point:
        """The load whose last run was read."""
        runs, asked = self.of_point, self.layout.asked
        name, rates = _basis(runs)
        if name != "steady":
            never = [run.title for run in runs if run.steady is None]
            self.remarks.append(
                f"no steady window: {', '.join(never)}; the mean over the repeats is that of the {name} window"
            )
        total = estimate([rate.total_tokens_per_s for rate in rates])
        output = estimate([rate.output_tokens_per_s for rate in rates])
        known = asked is not None and runs[0].point < len(asked.points)
        point = Point(
            point=runs[0].point,
            connections=asked.points[runs[0].point].connections if asked and known else runs[0].connections,
            runs=tuple(run.name for run in runs),
            total_tokens_per_s=total,
            output_tokens_per_s=output,
            requests_per_s=estimate([rate.requests_per_s for rate in rates]),
            total_tokens_per_s_per_node=total.mean / asked.shape.replicas if asked else None,
            latencies=runs[0].latencies if len(runs) == 1 else self.pool.latencies(),
            usd_per_million_tokens=_usd(asked, total),
            usd_per_million_output_tokens=_usd(asked, output),
        )
        self.of_point, self.pool = [], Pool()
        return point

    def prompts(self) -> Prompts:
        """Uniqueness over all runs, by hashes of 64 bits."""
        if not self.hashes:
            return Prompts(known=0, repeated=0)
        together = np.concatenate(self.hashes)
        return Prompts(known=len(together), repeated=len(together) - len(np.unique(together)))


def _limits(slo: AskedSlo | None) -> AskedSlo | None:
    """None where no limit is set."""
    return slo if slo is not None and any(limit is not None for limit in slo.model_dump().values()) else None


def _basis(runs: Sequence[Run]) -> tuple[str, list[Rates]]:
    """Rates of the narrowest window that every run has, and its name."""
    for name, found in (("steady", [run.steady for run in runs]), ("common", [run.common for run in runs])):
        rates = [one for one in found if one is not None]
        if len(rates) == len(runs):
            return name, rates
    return "whole", [run.whole for run in runs]


def _usd(asked: Asked | None, rate: Estimate) -> float | None:
    """Dollars a million tokens, at the stack's price an hour."""
    if asked is None or asked.cost is None or rate.mean <= 0:
        return None
    return asked.cost.usd_per_hour / (rate.mean * 3600.0) * 1e6
