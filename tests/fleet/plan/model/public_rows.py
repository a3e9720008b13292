"""Public measurements of vLLM, and the roofline's answers to them.

The rows of CHOSEN_ON determined the roofline's numbers; the others only test it. Source and license: public_throughput.csv, here.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from facts import machines, models
from facts.memory import GIB
from facts.model_config import FORMAT_BYTES, ModelShape
from facts.workloads import Lengths, Workload
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad
from fleet.plan.model.fleet_rate import FleetLoad, fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import first_token_by_steps_s
from fleet.plan.model.roofline import of_class, roofline_of

FILE: Final = Path(__file__).with_name("public_throughput.csv")
CHOSEN_ON: Final = frozenset(
    {
        ("meta-llama/Llama-3.3-70B-Instruct", "fp8", "H100"),
        ("openai/gpt-oss-120b", "mxfp4", "H100"),
        ("MiniMaxAI/MiniMax-M2.5", "fp8", "B200"),
    }
)
_GPUS: Final = {gpu.name: gpu for gpu in (machines.H100, machines.H200, machines.B200)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRow:
    """One measured run of one engine."""

    group: tuple[str, str, str]
    """Model, weight format and GPU."""
    workload: Workload
    in_flight: int
    ttft_ms: float
    tpot_ms: float
    deployment: Deployment

    @property
    def chosen_on(self) -> bool:
        """Whether the row determined the roofline's numbers."""
        return self.group in CHOSEN_ON

    @property
    def is_dense(self) -> bool:
        """Whether the row tests the dense roofline."""
        return of_class(self.deployment.model).factor < 2

    @property
    def total_tokens_per_s(self) -> float:
        """Total tokens/s, computed from the latencies and the requests in flight."""
        ms = self.ttft_ms + self.tpot_ms * (self.workload.output_tokens.mean - 1)
        return 1e3 * self.in_flight * self.workload.tokens_per_request / ms

    @property
    def estimated(self) -> FleetLoad:
        """The roofline's answer."""
        fleet = self.deployment
        parameters = roofline_of(fleet.model, of_class(fleet.model))
        offered = OfferedLoad(in_flight=self.in_flight)
        return fleet_load(fleet, self.workload, offered, parameters, budget(fleet, self.workload))

    @property
    def rate_ratio(self) -> float:
        """Above 1 if the roofline overestimates."""
        return self.estimated.requests_per_s * self.workload.tokens_per_request / self.total_tokens_per_s

    @property
    def first_token_ratio(self) -> float:
        """Above 1 if the first token comes sooner than the roofline says."""
        return 1e3 * first_token_by_steps_s(self.estimated) / self.ttft_ms


@cache
def rows() -> tuple[PublicRow, ...]:
    """Every row of the file."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(_row(found) for found in csv.DictReader(lines))


def _row(found: dict[str, str]) -> PublicRow:
    """Assumed if not in the source: 16-bit cache, vLLM's default memory share, no limit below the load."""
    ranks, into, out, in_flight = (
        int(found[name]) for name in ("tensor_parallel", "input_tokens", "output_tokens", "in_flight")
    )
    return PublicRow(
        group=(found["model"], found["weights"], found["gpu"]),
        workload=Workload(input_tokens=Lengths.exactly(into), output_tokens=Lengths.exactly(out)),
        in_flight=in_flight,
        ttft_ms=float(found["ttft_ms"]),
        tpot_ms=float(found["tpot_ms"]),
        deployment=Deployment(
            nodes=1,
            model=_in_format(found["model"], found["weights"]),
            gpu=_GPUS[found["gpu"]],
            gpus_per_node=ranks,
            engine=EngineShape(
                data_parallel=1,
                tensor_parallel=ranks,
                max_model_len_tokens=into + out,
                max_num_seqs=max(256, in_flight),
                max_num_batched_tokens=8_192,
                kv_cache_dtype="auto",
                gpu_memory_utilization=0.9,
                prefix_caching=False,
                speculative_tokens=0,
                language_model_only=True,
            ),
        ),
    )


def _in_format(model: str, weights: str) -> ModelShape:
    """The catalogue's model with its weights in another format. Converts embeddings too, which is 1 to 2 % too small."""
    shape = models.CATALOGUE[model].shape
    if shape.weight_format == weights:
        return shape
    return replace(shape, weight_format=weights, text_weights_gib=shape.parameters * FORMAT_BYTES[weights] / GIB)
