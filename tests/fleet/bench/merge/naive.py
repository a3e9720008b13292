"""The same figures by plain loops over the files, as a reference for the merge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Request:
    """A successful one; moments are epoch seconds."""

    client: int
    start: float
    ttft: float
    itls: list[float]
    inputs: int
    outputs: int

    @property
    def e2e(self) -> float:
        return self.ttft + sum(self.itls)

    @property
    def end(self) -> float:
        return self.start + self.e2e


def requests(run: Path) -> list[Request]:
    """Every request with an answer, its clock laid by the witness' first pair of readings."""
    found = []
    for path in sorted(run.glob("client-???.json")):
        result = json.loads(path.read_bytes())
        clock = json.loads(path.with_suffix(".witness.json").read_bytes())["clock"]
        for i, outputs in enumerate(result["output_lens"]):
            if outputs > 0:
                start = clock["wall"] + result["start_times"][i] - clock["perf_counter"]
                found.append(
                    Request(
                        int(result["client"]),
                        start,
                        result["ttfts"][i],
                        result["itls"][i],
                        result["input_lens"][i],
                        outputs,
                    )
                )
    return found


def tokens(found: list[Request], began: float, ended: float) -> tuple[float, float, int]:
    """Input tokens, output tokens and requests in a window."""
    inputs = outputs = 0.0
    done = 0
    for one in found:
        at = one.start + one.ttft
        chunks = [at]
        for gap in one.itls:
            at += gap
            chunks.append(at)
        outputs += sum(one.outputs / len(chunks) for moment in chunks if began <= moment < ended)
        inputs += one.inputs if began <= one.start + one.ttft < ended else 0
        done += began <= one.end < ended
    return inputs, outputs, done


def in_flight(found: list[Request], moment: float) -> int:
    """Requests under way at a moment."""
    return sum(one.start <= moment < one.end for one in found)
