"""The tables of the page about the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from facts import figures, ledger, memory
from facts.machines import B200
from facts.workloads import draft_acceptance, named_workload
from fleet.plan.model.calibrate import left_out
from fleet.plan.model.calibration import FITTED, contents
from fleet.plan.model.checks import checks
from fleet.plan.model.deployment import Deployment, record_fleet
from fleet.plan.model.errors import Error, errors
from fleet.plan.model.gpu_memory import MemoryBudget, budget
from fleet.plan.model.public_rows import PublicError, groups, is_dense, spread
from fleet.plan.model.public_rows import errors as public_errors
from fleet.plan.model.roofline import peak_flop_per_s
from fleet.plan.model.rows import PHASES, Role, Row
from fleet.plan.report.model_tables import METRICS


def parameters_table() -> list[str]:
    """The free parameters."""
    fitted = contents()["fitted"]
    return _table(
        ("parameter", "value", "unit", "what it is", "least it could be", "rows that fix it"),
        [
            (
                f"`{name}`",
                f"{fitted[name]['value']:g}",
                fitted[name]["unit"],
                fitted[name]["meaning"].strip(),
                str(fitted[name]["floor"]).strip(),
                ", ".join(f"`{row}`" for row in fitted[name]["rows"]),
            )
            for name in FITTED
        ],
    )


def assumptions_table() -> list[str]:
    """What the model takes from elsewhere."""
    fixed = contents()["fixed"].values()
    assumed = contents()["assumed"]
    return _table(
        ("what", "value", "source"),
        [
            *((entry["meaning"].strip(), _value(entry["value"]), f"`{entry['source']}`") for entry in fixed),
            (
                "draft tokens accepted by position: those of MTP-5, scaled to the 90 % of one draft token at the first",
                _value(list(draft_acceptance())),
                "`article`",
            ),
            ("memory of a B200, as CUDA reports it", f"{B200.memory_gib} GiB", "`torchao-4002`"),
            ("bandwidth of a B200", f"{B200.bandwidth_bytes_per_s / 1e12:g} TB/s", "`article`"),
            ("dense FP8 arithmetic of a B200", f"{peak_flop_per_s(B200, 'fp8') / 1e15:g} PFLOP/s", "`torchao-4002`"),
            *((entry["what"].strip(), _value(entry["value"]), entry["because"].strip()) for entry in assumed),
        ],
    )


def rows_table(role: Role) -> list[str]:
    """Every row of that role: published, answered, and by the straight line."""
    return _table(
        ("row", "what", "published", "model", "error", "interval", "line"), [_cells(error) for error in errors(role)]
    )


def memory_table() -> list[str]:
    """Where one GPU's memory goes."""
    record, before = _record(), _before_phase_4()
    parts: Sequence[tuple[str, Callable[[MemoryBudget], float]]] = (
        ("GPU", lambda room: room.gpu_gib),
        ("budget, 0.92 and 0.90 of it", lambda room: room.budget_gib),
        ("weights, text", lambda room: room.weights_gib),
        ("weights, vision", lambda room: room.vision_gib),
        ("draft", lambda room: room.draft_gib),
        ("activations, calibrated", lambda room: room.activations_gib),
        ("logits of the start-up step, for 1,024 and 8,192 sequences", lambda room: room.sampler_gib),
        ("CUDA graphs, calibrated; outside the budget in phases 2 and 3", lambda room: room.cuda_graphs_gib),
        ("cache", lambda room: room.cache_gib),
        ("left outside the budget", lambda room: room.outside_gib),
    )
    rows = [(title, f"{of(record):.1f}", f"{of(before):.1f}") for title, of in parts]
    return _table(("GiB", "the record", "phases 2 and 3"), rows)


def memory_facts_table() -> list[str]:
    """What the article says of memory, and what the arithmetic makes of it."""
    record, before, article = _record(), _before_phase_4(), named_workload("article")
    bfloat16 = budget(_with(record_fleet(1), kv_cache_dtype="auto"))
    prose = budget(_with(record_fleet(1), max_num_seqs=8_192))
    phase_2 = figures.published("phases.dp8").details
    first_hit = memory.shortest_prompt_prefix_caching_can_hit(record.layout)
    without_mtp = memory.shortest_prompt_prefix_caching_can_hit(replace(record.layout, speculative_tokens=0))
    crash = budget(_with(PHASES["phases.dp8-4096"], gpu_memory_utilization=0.95))
    return _table(
        ("published", "model", "how"),
        [
            (
                "959K KV tokens an engine, FP8",
                f"{record.kv_tokens:,}",
                f"calibrated: {record.pool_blocks:,} blocks in 4 groups, 1,584 tokens each",
            ),
            (
                "the same with the prose's 8,192 sequences",
                f"{prose.kv_tokens:,}",
                f"{prose.sampler_gib:.0f} GiB of logits instead of {record.sampler_gib:.0f}; {prose.running_limit(article):.0f} "
                "sequences would run, where the article saw 251 in 73 % of the cache. So the record had the final list's 1,024",
            ),
            (
                "288K before",
                f"{before.kv_tokens:,}",
                f"calibrated: {before.pool_blocks:,} blocks in 4 groups, 800 tokens each, with 8,192 sequences. FP8 by itself gives "
                f"{record.kv_tokens / bfloat16.kv_tokens:.2f} times the printed tokens; the rest of 3.33 is logits",
            ),
            (
                "73, 73, 75 % of the cache",
                _predicted("kv_cache_peak_percent"),
                f"predicted: {record.blocks_per_sequence(article):.0f} blocks a sequence, one of them keys and values",
            ),
            (
                "251, 253, 256 running",
                _predicted("running_peak_per_engine"),
                "predicted: 2,000 / 8 and the fullest node",
            ),
            (
                f"{phase_2['kv_cache_usage_percent']} % with {phase_2['running_requests']} running",
                f"{before.running_limit(article):.0f} run",
                f"predicted with {before.blocks_per_sequence(article):.1f} blocks a sequence: {before.state_blocks} of states, "
                "as the start-up estimate counts, and 1 or 2 of keys and values as it grows. The code of 0.18.1 would hold 6 "
                "of states; whether the earlier release or the 16-bit cache held more is not known. The model takes the "
                "estimate for every 16-bit cache",
            ),
            (
                "no prefix hit",
                f"none below {first_hit:,} tokens",
                "two whole blocks and a token with MTP, where --max-model-len was 2,560 and the shared prefix 512 "
                f"tokens; {without_mtp:,} without MTP",
            ),
            (
                "crash at 0.95 with MTP, bfloat16 cache",
                "not derived",
                f"what is left outside the budget falls from {before.outside_gib:.1f} to {crash.outside_gib:.1f} GiB, "
                "CUDA graphs taken off as they came on top. The draft takes 0.4 GiB, not 29 GB. What needed the rest is "
                "not known",
            ),
        ],
    )


def left_out_table() -> list[str]:
    """Configurations that a fit without them predicts."""
    return _table(
        ("left out", "published", "fitted without it"),
        [
            (f"`{figure}`", _number(float(figures.published(figure).total_tokens_per_s or 0)), f"{percent:+.1f} %")
            for figure, percent in left_out().items()
        ],
    )


def checks_table() -> list[str]:
    """Readings from outside the tables."""
    rows = [
        (check.title, f"{_number(check.published)} {check.unit}", _number(check.predicted), check.error_percent)
        for check in checks()
    ]
    rows += [
        (
            f"`{_figure(error.row)}`: {METRICS[error.row.metric]}",
            _number(error.row.published),
            _number(error.predicted.value),
            error.percent,
        )
        for error in errors("check")
    ]
    return _table(
        ("check", "measured", "model", "error"),
        [(title, measured, model, f"{percent:+.1f} %") for title, measured, model, percent in rows],
    )


def accuracy_table() -> list[str]:
    """How wide intervals are."""
    accuracy = contents()["accuracy"]
    return _table(
        ("reading", "within", "because"),
        [
            (name.removesuffix("_percent").replace("_", " "), f"{entry['value']} %", entry["meaning"])
            for name, entry in accuracy.items()
        ],
    )


def public_table(*, chosen_on: bool) -> list[str]:
    """The roofline against public rows, by model, format and GPU."""
    return _table(
        ("model", "weights", "GPU", "class", "rows", "median", "mean size", "nine in ten within", "worst", "in range"),
        [
            (
                f"`{model}`",
                weights,
                gpu,
                "dense" if is_dense(found[0].row) else "experts",
                *_spread_cells(found),
            )
            for (model, weights, gpu), found in groups(chosen_on=chosen_on)
        ],
    )


def public_sums_table() -> list[str]:
    """The same by class and by GPU, of the rows that chose nothing."""
    tests = [error for error in public_errors() if not error.row.chosen_on]
    kinds = {"dense": True, "experts": False}
    gpus = sorted({error.row.gpu for error in tests})
    chosen = {
        **{f"all {name}": [error for error in tests if is_dense(error.row) is dense] for name, dense in kinds.items()},
        **{
            f"{name} on {gpu}": [error for error in tests if (is_dense(error.row), error.row.gpu) == (dense, gpu)]
            for name, dense in kinds.items()
            for gpu in gpus
        },
    }
    return _table(
        ("rows that chose nothing", "rows", "median", "mean size", "nine in ten within", "worst", "in range"),
        [(name, *_spread_cells(found)) for name, found in chosen.items() if found],
    )


def latency_table() -> list[str]:
    """Latency on the rows that chose nothing."""
    tests = [error for error in public_errors() if not error.row.chosen_on]
    rows = []
    for name in ("tpot", "ttft"):
        for kind, dense in (("dense", True), ("experts", False)):
            found = spread([getattr(error, name) for error in tests if is_dense(error.row) is dense])
            rows.append((name.upper(), kind, str(found.rows), _ratio(found.median), f"x/÷ {found.ninety:.2f}"))
    return _table(("reading", "class", "rows", "median", "nine in ten within"), rows)


def front_end_table() -> list[str]:
    """What the front end and its clients carry."""
    runs = {**ledger.section("front_end", "servers"), **ledger.section("front_end", "clients")}
    return _table(
        ("model", "API servers", "clients", "in flight", "total tok/s", "TTFT median, p99", "TPOT median", "running"),
        [
            (
                f"{run.get('layers', 12)} layers",
                str(run.get("api_servers", 4)),
                f"{run['processes']} x `bench serve`" if "processes" in run else "16 of ours",
                f"{run['in_flight']:,}",
                f"{run['total_tokens_per_s']:,}",
                f"{run['ttft_median_s']:g}, {run['ttft_p99_s']:g} s",
                f"{run['tpot_median_ms']:g} ms",
                f"{run['running']:,}" if "running" in run else "–",
            )
            for run in runs.values()
        ],
    )


def _spread_cells(found: Sequence[PublicError]) -> tuple[str, ...]:
    rates = spread([error.rate for error in found])
    return (
        str(rates.rows),
        _ratio(rates.median),
        f"{rates.mean_percent:.0f} %",
        f"x/÷ {rates.ninety:.2f}",
        f"x/÷ {rates.worst:.2f}",
        f"{100 * sum(error.in_range for error in found) / len(found):.0f} %",
    )


def _ratio(value: float) -> str:
    return f"{100 * (value - 1):+.0f} %"


def _cells(error: Error) -> tuple[str, ...]:
    return (
        f"`{_figure(error.row)}`",
        METRICS[error.row.metric],
        _number(error.row.published),
        _number(error.predicted.value),
        f"{error.percent:+.1f} %",
        f"{_number(error.predicted.low)} to {_number(error.predicted.high)}",
        "–" if error.line_percent is None else f"{error.line_percent:+.1f} %",
    )


def _with(deployment: Deployment, **options: Any) -> Deployment:
    return replace(deployment, engine=replace(deployment.engine, **options))


def _record() -> MemoryBudget:
    return budget(record_fleet(1))


def _before_phase_4() -> MemoryBudget:
    return budget(PHASES["phases.dp8-4096"])


def _predicted(metric: str) -> str:
    return ", ".join(f"{error.predicted.value:.0f}" for error in errors("predicted") if error.row.metric == metric)


def _figure(row: Row) -> str:
    return row.id.partition(":")[0]


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _value(value: Any) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(headers)} |",
        f"|{' --- |' * len(headers)}",
        *(f"| {' | '.join(cell or '–' for cell in row)} |" for row in rows),
    ]
