"""Compare the roofline with public measurements of vLLM.

The rows of CHOSEN_ON determined the roofline's numbers; the others only test it. Source and license: facts/data/public_throughput.csv.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from typing import Final

from facts import machines, models
from facts.ledger import DATA_FOLDER
from facts.memory import GIB
from facts.model_config import FORMAT_BYTES, ModelShape
from facts.workloads import Lengths, Workload
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad
from fleet.plan.model.performance import estimate
from fleet.plan.model.roofline import of_class

FILE: Final = DATA_FOLDER / "public_throughput.csv"
CHOSEN_ON: Final = frozenset(
    {
        ("meta-llama/Llama-3.3-70B-Instruct", "fp8", "H100"),
        ("openai/gpt-oss-120b", "mxfp4", "H100"),
        ("MiniMaxAI/MiniMax-M2.5", "fp8", "B200"),
    }
)
_GPUS: Final = {gpu.name: gpu for gpu in (machines.H100, machines.H200, machines.B200)}
_MS: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRow:
    """One measured run of one engine."""

    model: str
    weights: str
    """Weight format."""
    gpu: str
    tensor_parallel: int
    input_tokens: int
    output_tokens: int
    in_flight: int
    ttft_ms: float
    tpot_ms: float
    vllm: str
    """Version; empty where the source has none."""
    date: str
    """ISO date of the run; empty where the source has none."""

    @property
    def group(self) -> tuple[str, str, str]:
        """Model, weight format and GPU."""
        return self.model, self.weights, self.gpu

    @property
    def chosen_on(self) -> bool:
        """Whether the row determined the roofline's numbers."""
        return self.group in CHOSEN_ON

    @property
    def total_tokens_per_s(self) -> float:
        """Total tokens/s, computed from the latencies and the requests in flight."""
        seconds = _MS * (self.ttft_ms + self.tpot_ms * (self.output_tokens - 1))
        return self.in_flight * (self.input_tokens + self.output_tokens) / seconds

    @property
    def workload(self) -> Workload:
        """The row's request lengths."""
        return Workload(
            input_tokens=Lengths.exactly(self.input_tokens), output_tokens=Lengths.exactly(self.output_tokens)
        )

    @property
    def deployment(self) -> Deployment:
        """The row's engine. Assumed if not in the source: 16-bit cache, vLLM's default memory share, no limit below the load."""
        return Deployment(
            nodes=1,
            reading="engine",
            model=in_format(self.model, self.weights),
            gpu=_GPUS[self.gpu],
            gpus_per_node=self.tensor_parallel,
            engine=EngineShape(
                data_parallel=1,
                tensor_parallel=self.tensor_parallel,
                max_model_len_tokens=self.input_tokens + self.output_tokens,
                max_num_seqs=max(256, self.in_flight),
                max_num_batched_tokens=8_192,
                kv_cache_dtype="auto",
                gpu_memory_utilization=0.9,
                prefix_caching=False,
                speculative_tokens=0,
                language_model_only=True,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicError:
    """Ratios of the roofline's estimates to one measured row."""

    row: PublicRow
    rate: float
    tpot: float
    ttft: float
    ttft_in_range: bool
    in_range: bool
    """Whether the measured rate lies within the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of a group's ratios."""

    rows: int
    median: float
    """Above 1 if the roofline overestimates."""
    mean_percent: float
    """Mean absolute error."""
    ninety: float
    """90 % of the rows lie within this factor."""
    worst: float


@cache
def rows() -> tuple[PublicRow, ...]:
    """Every row of the file."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(_row(line) for line in lines[1:])


@cache
def errors() -> tuple[PublicError, ...]:
    """The roofline's error on every row."""
    return tuple(_error(row) for row in rows())


def spread(ratios: list[float]) -> Spread:
    """Summarize ratios around 1."""
    ordered = sorted(ratios)
    factors = sorted(exp(abs(log(ratio))) for ratio in ratios)
    return Spread(
        rows=len(ratios),
        median=ordered[len(ordered) // 2],
        mean_percent=100 * sum(abs(ratio - 1) for ratio in ratios) / len(ratios),
        ninety=factors[int(0.9 * (len(factors) - 1))],
        worst=factors[-1],
    )


def groups(*, chosen_on: bool) -> Iterator[tuple[tuple[str, str, str], tuple[PublicError, ...]]]:
    """Errors by model, format and GPU, for the rows that determined the numbers or for the test rows."""
    found = [error for error in errors() if error.row.chosen_on is chosen_on]
    for group in sorted({error.row.group for error in found}):
        yield group, tuple(error for error in found if error.row.group == group)


@cache
def in_format(model: str, weights: str) -> ModelShape:
    """The catalogue's model with its weights in another format. Converts embeddings too, which is 1 to 2 % too small."""
    shape = models.CATALOGUE[model].shape
    if shape.weight_format == weights:
        return shape
    return replace(
        shape,
        weight_format=weights,
        text_weights_gib=shape.parameters * FORMAT_BYTES[weights] / GIB,
    )


def is_dense(row: PublicRow) -> bool:
    """Whether the row tests the dense roofline."""
    return of_class(row.deployment.model).factor < 2


def _row(line: str) -> PublicRow:
    model, weights, gpu, *numbers, vllm, date = line.split(",")
    ranks, into, out, in_flight = (int(number) for number in numbers[:4])
    ttft, tpot = (float(number) for number in numbers[4:])
    return PublicRow(
        model=model,
        weights=weights,
        gpu=gpu,
        tensor_parallel=ranks,
        input_tokens=into,
        output_tokens=out,
        in_flight=in_flight,
        ttft_ms=ttft,
        tpot_ms=tpot,
        vllm=vllm,
        date=date,
    )


def _error(row: PublicRow) -> PublicError:
    estimated = estimate(row.deployment, row.workload, OfferedLoad(in_flight=row.in_flight))
    return PublicError(
        row=row,
        rate=estimated.total_tokens_per_s.value / row.total_tokens_per_s,
        tpot=estimated.tpot_ms.value / row.tpot_ms,
        ttft=estimated.ttft_ms.value / row.ttft_ms,
        ttft_in_range=estimated.ttft_ms.holds(row.ttft_ms),
        in_range=estimated.total_tokens_per_s.holds(row.total_tokens_per_s),
    )
