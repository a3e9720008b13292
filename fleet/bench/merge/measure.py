"""From a folder to a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import DCGM_FILE, METRICS_FILE, RUN_FILE, Asked, DcgmSeries, Witness
from fleet.bench.measurement import Measurement, Point, Prompts, Rates, Run
from fleet.bench.merge.client_file import NoSuccessError, read_client
from fleet.bench.merge.gpus import GpuSeries, of_dcgm
from fleet.bench.merge.run_figures import Pool, Surroundings, run_figures
from fleet.bench.merge.servers import read_samples
from fleet.bench.repeats import estimate

File = TypeVar("File", bound=BaseModel)


def merge_folder(folder: Path) -> Measurement:
    """Merge a measurement's folder: every run of run.json that is complete; the others are named in `missing`.

    Raises BenchmarkError for a folder that is none, one without a complete run, and a file that the benchmark's pod does not write.
    """
    if not (folder / RUN_FILE).is_file():
        raise BenchmarkError(
            f"{folder} has no {RUN_FILE}; pass a folder that `fleet bench run` or `fleet bench fetch` wrote"
        )
    merge = _Merge(folder, read_file(folder / RUN_FILE, Asked))
    points = [point for number in range(len(merge.asked.points)) if (point := merge.point(number)) is not None]
    if not points:
        raise BenchmarkError(
            f"{folder} has no complete run: {merge.missing[0]}; fetch the measurement again, or measure again"
        )
    return Measurement(
        asked=merge.asked,
        runs=tuple(merge.runs),
        points=tuple(points),
        prompts=merge.prompts(),
        missing=tuple(merge.missing),
        remarks=tuple(dict.fromkeys(merge.remarks)),
    )


def read_file(path: Path, model: type[File]) -> File:
    """One of the pod's files. Raises BenchmarkError."""
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BenchmarkError(
            f"{path}: {where}: {first['msg']}; expected: {path.name} as `fleet bench run` writes it; fetch the measurement again"
        ) from None


@dataclass
class _Merge:
    """State of a merge, load by load."""

    folder: Path
    asked: Asked
    runs: list[Run] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    hashes: list[Any] = field(default_factory=list)
    gpus: list[GpuSeries] = field(default_factory=list)
    gpu_problem: str | None = None

    def __post_init__(self) -> None:
        if (self.folder / DCGM_FILE).is_file():
            file = read_file(self.folder / DCGM_FILE, DcgmSeries)
            self.gpus, self.gpu_problem = of_dcgm(file), file.problem

    def point(self, number: int) -> Point | None:
        """All complete repeats of one load; None without any."""
        pool = Pool()
        runs = [run for repeat in range(self.asked.repeats) if (run := self._run(number, repeat, pool)) is not None]
        self.runs += runs
        if not runs:
            return None
        rates = _basis(runs)
        total = estimate([rate.total_tokens_per_s for rate in rates])
        cost = self.asked.cost
        return Point(
            point=number,
            connections=self.asked.points[number].connections,
            total_tokens_per_s=total,
            output_tokens_per_s=estimate([rate.output_tokens_per_s for rate in rates]),
            requests_per_s=estimate([rate.requests_per_s for rate in rates]),
            latencies=runs[0].latencies if len(runs) == 1 else pool.latencies(),
            usd_per_million_tokens=None
            if cost is None or total.mean <= 0
            else cost.usd_per_hour / (total.mean * 3600.0) * 1e6,
        )

    def _run(self, point: int, repeat: int, pool: Pool) -> Run | None:
        name = f"point-{point:02d}-repeat-{repeat}"
        stems = [f"client-{number:03d}" for number in range(self.asked.points[point].clients)]
        files = [self.folder / name / f"{stem}{end}.json" for stem in stems for end in ("", ".witness")]
        gone = [file.name for file in files if not file.is_file()]
        if gone:
            more = f" and {len(gone) - 1} more files" if len(gone) > 1 else ""
            self.missing.append(f"{name}: {gone[0]}{more}")
            return None
        try:
            clients = [read_client(file, number) for number, file in enumerate(files[::2])]
        except NoSuccessError as error:
            self.missing.append(f"{name}: {error} of a client")
            return None
        witnesses = [read_file(file, Witness) for file in files[1::2]]
        for client, witness, file in zip(clients, witnesses, files[1::2], strict=True):
            if {len(witness.prompt_hashes), len(witness.asked_output_tokens)} != {client.requests}:
                raise BenchmarkError(
                    f"{file} is of another client than its result: it has {len(witness.prompt_hashes)} prompts"
                )
            self.hashes.append(np.array(witness.prompt_hashes))
            pool.add(client)
        metrics = self.folder / name / METRICS_FILE
        run, remarks = run_figures(
            clients,
            Surroundings(
                name=name,
                point=point,
                repeat=repeat,
                witnesses=witnesses,
                samples=read_samples(metrics) if metrics.is_file() else (),
                gpus=self.gpus,
                gpu_problem=self.gpu_problem,
                slo=self.asked.slo,
            ),
        )
        self.remarks += [f"{run.title}: {text}" for text in remarks]
        return run

    def prompts(self) -> Prompts:
        """Uniqueness over all runs, by hashes of 64 bits."""
        together = np.concatenate(self.hashes)
        return Prompts(known=len(together), repeated=len(together) - len(np.unique(together)))


def _basis(runs: Sequence[Run]) -> list[Rates]:
    """Rates of the narrowest window that every run has."""
    for found in ([run.steady for run in runs], [run.common for run in runs]):
        rates = [one for one in found if one is not None]
        if len(rates) == len(runs):
            return rates
    return [run.whole for run in runs]
