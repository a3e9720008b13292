"""The split of a gateway's loss as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.bench.gateway_loss.split import Measured, Part, Share, parts
from fleet.bench.gateway_loss.variants import DIRECT
from fleet.report.outline import Items, Outline
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_number, format_percent

_NOTHING = "-"


def split_outline(stack: str, measured: Sequence[Measured]) -> Outline:
    """What was measured, and how much of the loss each part accounts for."""
    split = parts(measured)
    direct = next(one for one in measured if one.variant == DIRECT)
    loss = split[0].share
    assert loss is not None  # measured_in refuses a folder without its two measurements
    return Outline(
        title=f"vllm-fleet / {stack}",
        kind="bench gateway-loss",
        verdict=f"the gateway takes {_words(loss)} of {format_number(direct.rate.mean)} total tokens a second",
        head=(
            Table(
                id="split",
                caption="Parts of the loss, as shares of the throughput without a gateway",
                columns=(*texts("part", "from"), *numbers("share", "95 % interval"), *texts("verdict")),
                rows=tuple(_part(one) for one in split),
            ),
            Table(
                id="measurements",
                caption="The measurements",
                columns=(
                    *texts("measurement"),
                    *numbers("total tok/s", "95 % interval", "chunks/s"),
                    *texts("certificate"),
                ),
                rows=tuple(_measurement(one) for one in measured),
            ),
            Items(tuple(_reading(measured))),
        ),
        data={
            "stack": stack,
            "parts": [
                {
                    "id": one.id,
                    "share": None if one.share is None else round(one.share.value, 5),
                    "half_width": None if one.share is None else round(one.share.half, 5),
                    "missing": list(one.missing),
                }
                for one in split
            ],
            "measurements": [
                {
                    "id": one.variant.id,
                    "total_tokens_per_s": round(one.rate.mean, 1),
                    "runs": len(one.values),
                    "chunks_per_s": round(one.chunks_per_s),
                    "lacks": list(one.lacks),
                }
                for one in measured
            ],
        },
    )


def _words(share: Share) -> str:
    return f"{format_percent(share.value)} (±{format_percent(share.half)})"


def _part(part: Part) -> tuple[Cell, ...]:
    if part.share is None:
        return (
            Cell(part.title),
            Cell(part.how),
            Cell(_NOTHING),
            Cell(_NOTHING),
            Cell(f"missing: {', '.join(part.missing)}"),
        )
    low, high = part.share.value - part.share.half, part.share.value + part.share.half
    verdict = "not told from 0" if not part.share.is_certain else "a loss" if part.share.value > 0 else "a gain"
    return (
        Cell(part.title),
        Cell(part.how),
        Cell(format_percent(part.share.value)),
        Cell(f"{format_percent(low)} to {format_percent(high)}"),
        Cell("less loss" if part.id.startswith("goes-") and verdict == "a loss" else verdict),
    )


def _measurement(one: Measured) -> tuple[Cell, ...]:
    rate = one.rate
    spread = (
        _NOTHING
        if rate.low is None or rate.high is None
        else f"{format_number(rate.low)} to {format_number(rate.high)}"
    )
    return (
        Cell(one.variant.id),
        Cell(format_number(rate.mean)),
        Cell(spread),
        Cell(format_number(one.chunks_per_s)),
        Cell("not certified: " + ", ".join(one.lacks) if one.lacks else "certified"),
    )


def _reading(measured: Sequence[Measured]) -> Iterator[str]:
    yield (
        "Load balancer, calls and choice add up to the loss. Each interval holds by itself, not all together; with three runs it is "
        "wide, and more repeats narrow it."
    )
    yield (
        "The measurements follow one another: a change of the nodes meanwhile counts as a part. Repeat `direct` at the end, in another "
        "folder, where the result decides something."
    )
    if any(one.lacks for one in measured):
        yield "A measurement that is not certified is shown, and its part holds only as far as what the certificate lacks allows."
