"""Generates docs/provenance.md, the page of sources and errata, from the ledger: `python -m docs.generate.provenance`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from facts import figures, ledger, prices
from facts.figures import Figure
from facts.machines import DEFAULT
from facts.prices import Price
from settings.profiles import NAMES, profile

PAGE = Path(__file__).parents[1] / "provenance.md"

_TITLES = {
    "phases": "One node, step by step",
    "cluster_ip": "First run over nodes, ClusterIP: the record",
    "gateway": "First run over nodes, behind the Inference Gateway",
    "single_client": "One benchmark client for the whole fleet, which limits the rate",
    "cluster_ip_rerun": "Second run over nodes",
}
_NONE = "–"


def page() -> str:
    """The whole page as Markdown."""
    parts = (
        _introduction(),
        _sources(),
        _figures(),
        _measured(),
        _rendered_pods(),
        _current_release(),
        _second_run(),
        _shapes(),
        _workloads(),
        _article_claims(),
        _disaggregation(),
        _memory_and_money(),
        _prices(),
        _equivalences(),
        _reproduced(),
        _dated(),
        _disputes(),
        _digests(),
    )
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def _introduction() -> Iterator[str]:
    yield "# Where the numbers come from, and where they disagree"
    yield ""
    yield "Sources of every figure and price, and known contradictions. Generated from `facts/data/*.yaml` by"
    yield "`python -m docs.generate.provenance`; do not edit this page."
    yield ""
    yield "A figure applies to the configuration it was measured on. A stack with another configuration shows it only if every"
    yield "difference is justified below. Nothing is interpolated. Output tokens are derived, because the article states totals."
    yield ""


def _sources() -> Iterator[str]:
    yield from _heading("Sources")
    rows = []
    for id_ in ledger.section("sources", "sources"):
        source = ledger.source(id_)
        title = f"[{source.title}]({source.url})" if source.url else source.title
        rows.append((f"`{id_}`", title, source.date, (source.note or "").strip()))
    yield from _table(("id", "what", "date", "note"), rows)


def _figures() -> Iterator[str]:
    yield from _heading("Published figures")
    every = figures.all_figures()
    for file in figures.FIGURE_FILES:
        yield f"### {_TITLES[file]}"
        yield ""
        rows = [_figure_row(figure) for figure in every if figure.id.startswith(f"{file}.")]
        headers = ("row", "nodes", "total tok/s", "output tok/s", "efficiency", "TPOT", "TTFT", "shape", "disputed")
        yield from _table(headers, rows)
        notes = [(figure.id, text) for figure in every if figure.id.startswith(f"{file}.") for text in _remarks(figure)]
        for id_, text in notes:
            yield f"- `{id_}`: {text}"
        if notes:
            yield ""


def _figure_row(figure: Figure) -> tuple[str, ...]:
    efficiency = figure.scaling_efficiency_percent
    return (
        f"`{figure.id}` {figure.title}",
        str(figure.shape.replicas),
        ("about " if figure.approximate else "") + _number(figure.total_tokens_per_s),
        _number(figure.output_tokens_per_s),
        _NONE if efficiency is None else f"{efficiency} %",
        _NONE if figure.tpot_median_ms is None else f"{figure.tpot_median_ms} ms",
        _NONE if figure.ttft_median_ms is None else f"{_number(figure.ttft_median_ms)} ms",
        _measured_on(figure),
        _links(figure.dispute_ids),
    )


def _measured_on(figure: Figure) -> str:
    workload = figure.shape.workload
    words = "workload not stated" if workload == figures.NOT_STATED else workload
    return f"{figure.label.removeprefix('published, ')}, {words}"


def _remarks(figure: Figure) -> Iterator[str]:
    if figure.outcome:
        yield f"{figure.outcome}."
    if figure.note:
        yield figure.note.strip()
    if figure.also_published:
        yield f"also published: {', '.join(figure.also_published)}."
    if figure.details and not figure.id.startswith("cluster_ip_rerun."):
        yield f"{_plain(figure.details)}."


def _second_run() -> Iterator[str]:
    yield from _heading("Latency, power and counters of the second run")
    runs = [figures.published(f"cluster_ip_rerun.nodes-{nodes}") for nodes in (1, 2, 4)]
    rows = [(key.replace("_", " "), *(_plain(run.details[key]) for run in runs)) for key in runs[0].details]
    yield from _table(("metric", "1 node", "2 nodes", "4 nodes"), rows)
    mfu = figures.published("cluster_ip_rerun.mfu")
    rows = [(key.replace("_", " "), _plain(value)) for key, value in mfu.details.items()]
    yield from _table(("vLLM's metrics, per GPU", "value"), rows)


def _measured() -> Iterator[str]:
    yield from _heading("Measurements of your own")
    every = figures.measured_figures()
    if not every:
        yield "None yet. `fleet bench record DIR --id ID --title TEXT` prints a certified measurement as an entry, which a stack with"
        yield "exactly that configuration shows instead of a published figure. The planner's model is not fitted to it."
        yield ""
        return
    rows = [
        (
            f"`{figure.id}` {figure.title}",
            str(figure.shape.replicas),
            _number(figure.in_flight),
            _interval(figure.details["total_tokens_per_s"]),
            _interval(figure.details["output_tokens_per_s"]),
            _NONE if figure.tpot_median_ms is None else f"{figure.tpot_median_ms} ms",
            _NONE if figure.ttft_median_ms is None else f"{figure.ttft_median_ms:,} ms",
            f"{figure.label}, {figure.shape.workload}, {figure.shape.routing}",
            figure.source.note or "",
        )
        for figure in every
    ]
    headers = ("row", "nodes", "in flight", "total tok/s", "output tok/s", "TPOT", "TTFT", "what", "raw results")
    yield from _table(headers, rows)


def _rendered_pods() -> Iterator[str]:
    h200 = ledger.load("h200")
    source = ledger.source(h200["source"])
    yield from _heading("Rendered pods on an H200")
    yield f"{source.title[0].upper()}{source.title[1:]}, {source.date}. {source.note}"
    yield "Command, arguments and environment are those of `fleet preview --out`, the load is the rendered benchmark Job's, and rates and"
    yield "verdict are those of `fleet bench merge`. Neither the planner nor a stack uses these figures, because this program does not"
    yield "serve with vLLM 0.20.2."
    yield ""
    rows = [
        (
            f"`{name}`",
            run["profile"],
            _number(run["in_flight"]),
            _interval(run["total"]) if "low" in run["total"] else _number(run["total"]["mean"]),
            _number(run["output"]),
            _pair(run["ttft_s"], "s"),
            _pair(run["tpot_ms"], "ms"),
            f"{run['kv_percent']} %",
            f"{run['busy_percent']} %, {run['watts']} W",
            f"{run['repeats']}, on GPU {run['gpu']}",
            run["verdict"],
        )
        for name, run in h200["runs"].items()
    ]
    steady = ("TTFT, median and p99", "TPOT, median and p99")
    yield from _table(
        (
            "row",
            "profile",
            "in flight",
            "total tok/s",
            "output tok/s",
            *steady,
            "KV cache",
            "GPU busy",
            "runs",
            "verdict",
        ),
        rows,
    )
    yield "Changed in every run:"
    yield ""
    changed = [(f"`{one['what']}`", one["rendered"], one["run"], one["why"]) for one in h200["changed"]]
    yield from _table(("what", "rendered", "run", "why"), changed)
    yield "First request of each connection, when all prompts arrive at the same time:"
    yield ""
    waves = [
        (f"`{name}`", *(f"{wave[key]} s" for key in ("mean_s", "median_s", "p99_s", "whole_run_p99_s", "steady_p99_s")))
        for name, wave in h200["first_wave"].items()
    ]
    yield from _table(("row", "TTFT, mean", "median", "p99", "p99 of the whole run", "p99 of the steady window"), waves)
    said = [
        (f"`{name}`", f"{one['cache_gib']} GiB", _number(one["kv_tokens"]), str(one.get("full_requests", _NONE)))
        for name, one in h200["memory"].items()
    ]
    yield from _table(("vLLM's log", "left for the cache", "KV tokens", "requests of 2,560 tokens"), said)
    cold, warm = h200["starts"]["cold"], h200["starts"]["warm"]
    yield (
        f"Start of the pod of `tuned` to ready, with its compile cache: {cold['ready_s']:.0f} s without an archive, "
        f"{warm['ready_s']:.0f} s with one, of which torch.compile {cold['torch_compile_s']:.0f} and {warm['torch_compile_s']:.0f} s. "
        f"The archive of {cold['archive_mb']} MB is stored in {cold['store_s']} s and restored in {warm['restore_s']} s (a bucket on "
        "loopback). The other GPU compiled during the cold start and served during the warm one."
    )
    yield ""
    yield f"Not measured: {'; '.join(h200['not_run'])}."
    yield ""


def _current_release() -> Iterator[str]:
    h100 = ledger.load("h100")
    source = ledger.source(h100["source"])
    yield from _heading("vLLM 0.33.0 on an H100")
    yield f"{source.title[0].upper()}{source.title[1:]}, {source.date}. {source.note}"
    yield "Command, arguments and environment are those of a pod on a3-highgpu-1g with profile `record` on that day. No stack shows these"
    yield "figures; the planner's factor for Hopper covers the runs, not prompts alone, which are twice as fast as it says."
    yield ""
    rows = [
        (
            f"`{name}`",
            _number(run["in_flight"]),
            _number(run["total"]),
            _number(run["output"]),
            _pair(run["ttft_s"], "s"),
            _pair(run["tpot_ms"], "ms"),
            _pair(run["itl_ms"], "ms"),
            f"{run['kv_percent']} %",
            f"{run['busy_percent']} %, {run['watts']} W",
            run.get("note", _NONE),
        )
        for name, run in h100["runs"].items()
    ]
    steady = ("TTFT, median and p99", "TPOT, median and p99", "ITL, median and p99")
    yield from _table(
        ("row", "in flight", "total tok/s", "output tok/s", *steady, "KV cache", "GPU busy", "note"), rows
    )
    prompts = [
        (f"`{name}`", "{:,} to {:,}".format(*run["prompt_tokens"]), _number(run["in_flight"]), _number(run["prompt"]))
        for name, run in h100["prefill"].items()
    ]
    yield from _table(("prompts alone", "tokens of a prompt", "in flight", "prompt tok/s"), prompts)
    alone = [
        (
            name.removeprefix("tokens-"),
            *(f"{idle[key]} ms" for key in ("mtp", "mtp_short", "plain", "plain_short")),
        )
        for name, idle in h100["idle"].items()
    ]
    yield from _table(
        ("tokens of one prompt, idle engine", "first token, MTP-1", "one token less", "without MTP", "one token less"),
        alone,
    )
    kept = [
        (f"`{name}`", f"{start['cache_gib']} GiB", _number(start["kv_tokens"]), str(start["full_requests"]))
        for name, start in h100["memory"].items()
    ]
    yield from _table(("vLLM's log", "left for the cache", "KV tokens", "requests of 2,560 tokens"), kept)
    parts = ("ready_s", "engine_s", "torch_compile_s", "first_run_s", "graphs_and_compiled_kernels_s", "deep_gemm_s")
    starts = [(f"`{name}`", *(f"{start[part]:.0f} s" for part in parts)) for name, start in h100["starts"].items()]
    yield from _table(
        (
            "start",
            "to ready",
            "of it the engine",
            "torch.compile",
            "first run",
            "graphs, and kernels on the way",
            "DeepGEMM",
        ),
        starts,
    )
    yield "Chosen by vLLM:"
    yield ""
    yield from _table(("what", "chosen"), list(h100["kernels"].items()))
    yield "Changed in every run:"
    yield ""
    changed = [(f"`{change['what']}`", change["rendered"], change["run"], change["why"]) for change in h100["changed"]]
    yield from _table(("what", "rendered", "run", "why"), changed)
    early = h100["first_window"]
    yield (
        f"In the first window after a cold start, {early['in_flight']} in flight with MTP, output was {early['output']} tok/s "
        f"and the ITL's p99 {early['itl_p99_s']} s: kernels were still compiled."
    )
    yield ""
    yield f"Not measured: {'; '.join(h100['not_run'])}."
    yield ""


def _pair(values: Sequence[float], unit: str) -> str:
    return f"{values[0]} / {values[1]} {unit}"


def _interval(rate: Mapping[str, float]) -> str:
    return f"{rate['mean']:,.0f} ({rate['low']:,.0f} to {rate['high']:,.0f})"


def _shapes() -> Iterator[str]:
    yield from _heading("Configurations of these runs")
    yield "Figures of a row that is not complete never match a stack."
    yield f"Machine: {DEFAULT}, all 8 GPUs. Model: Qwen/Qwen3.5-27B-FP8 unless stated."
    yield ""
    seen: dict[tuple[Any, ...], Figure] = {}
    stated: dict[str, str] = {}
    rows = []
    for figure in figures.all_figures():
        shape = figure.shape
        if figure is not seen.setdefault(
            (figure.label, (*shape.flags.items(),), shape.workload, figure.left_open), figure
        ):
            continue
        options = [f"`{name}={_scalar(value)}`" for name, value in shape.flags.items()]
        options += [f"`{name}={value}`" for name, value in shape.env.items()]
        flags = ", ".join(options)
        model = "" if shape.model == "Qwen/Qwen3.5-27B-FP8" else f"{shape.model}, "
        rows.append(
            (
                f"`{figure.id}`",
                model + _measured_on(figure),
                f"as `{stated[flags]}`" if flags in stated else flags,
                "; ".join(figure.left_open),
                "yes" if figure.shape_is_complete else "no",
            )
        )
        stated.setdefault(flags, figure.id)
    yield from _table(("row", "release, workload", "stated options", "not stated", "complete"), rows)


def _workloads() -> Iterator[str]:
    yield from _heading("Workloads")
    rows = []
    for name, workload in ledger.section("workloads", "workloads").items():
        flags = " ".join(f"--{flag} {value}" for flag, value in workload["bench_0_18_1"].items())
        lengths = (_lengths(workload["input_tokens"]), _lengths(workload["output_tokens"]))
        rows.append(
            (f"`{name}`", *lengths, f"`{flags}`", workload["note"].strip(), _links(workload.get("disputed", ())))
        )
    yield from _table(("name", "input tokens", "output tokens", "vLLM 0.18.1's flags", "note", "disputed"), rows)
    users = ledger.load("users")
    yield f"### Users and requests, {_links(users['disputed'])}"
    yield ""
    user_rows = [
        (
            str(row["replicas"]),
            _number(row["concurrent_users"]),
            f"about {row['requests_per_s']}",
            _number(row["total_tokens_per_s"]),
        )
        for row in users["figures"].values()
    ]
    yield from _table(("nodes", "users at once", "requests/s", "total tok/s"), user_rows)


def _article_claims() -> Iterator[str]:
    yield from _heading("Machines and model, according to the article")
    rows = [
        (row["title"], row["h100_sxm"], row["b200_sxm"], f"{row['ratio']}x", _links(row.get("disputed", ())))
        for row in ledger.section("article", "hardware").values()
    ]
    yield from _table(("", "H100 SXM", "B200 SXM", "ratio", "disputed"), rows)
    claims = ledger.section("article", "said").values()
    yield from _table(
        ("what", "published", "remark", "disputed"),
        [(row["title"], row["value"], row["so"], _links(row.get("disputed", ()))) for row in claims],
    )


def _memory_and_money() -> Iterator[str]:
    yield from _heading("Memory, according to the article")
    rows = [
        (row["title"], row["published"], _links(row.get("disputed", ())))
        for row in ledger.section("memory", "values").values()
    ]
    yield from _table(("what", "published", "disputed"), rows)
    yield from _heading("Price of a million tokens, according to the article")
    content = ledger.load("economics")
    own = content["self_hosted"]
    bought = ledger.entry("prices", "article", "cud-1y")
    first = (
        f"self-hosted, {own['nodes']} nodes at ${own['usd_per_node_hour']} an hour ({bought['region']}, {bought['date']})",
        f"${own['usd_per_million_tokens']:.2f}",
        _links(own["disputed"]),
    )
    blended = content["apis_blended_usd_per_million_tokens"]
    yield from _table(
        ("what", "blended 2:1", "disputed"),
        [first, *((f"{api['name']}, {api['provider']}", f"${api['usd']:.2f}", _NONE) for api in blended.values())],
    )
    yield "List prices of input and output for these blends:"
    yield ""
    apart = content["apis_usd_per_million_tokens"]
    yield from _table(
        ("what", "input", "output", "source"),
        [
            (blended[id_]["name"], f"${api['input']:.2f}", f"${api['output']:.2f}", f"`{api['source']}`")
            for id_, api in apart.items()
        ],
    )
    yield content["note"].strip()
    yield ""


def _prices() -> Iterator[str]:
    yield from _heading("Prices")
    yield (
        'A bill uses the latest price of the stack\'s region only. With an unknown price a bill is a lower bound ("at least"). Other '
        "machines: `fleet prices --machine TYPE`, or facts/data/prices.csv."
    )
    yield ""
    content = ledger.load("prices")
    rows = []
    for id_, what in content["capacity"].items():
        found = prices.published(DEFAULT, what["mode"]) if "mode" in what else ()
        rows.append(_price_row(f"`capacity.{id_}` A4 node ({DEFAULT}), {what['name']}", "node-hour", what, found))
    for id_, what in content["items"].items():
        rows.append(_price_row(f"`items.{id_}` {what['name']}", what["unit"], what, prices.published(id_)))
    yield from _table(("price", "unit", "USD by region", "source, date", "note or reason"), rows)
    yield "The article's prices of a node-hour, not used in bills:"
    yield ""
    yield from _table(
        ("capacity", "USD", "region, date", "note"),
        [
            (f"`{id_}`", _usd(one["usd"]), f"{one['region']}, {one['date']}", one["note"])
            for id_, one in content["article"].items()
        ],
    )
    yield "Not in an hourly bill: " + "; ".join(content["excluded"]) + "."
    yield ""


def _price_row(name: str, unit: str, what: Mapping[str, Any], found: Sequence[Price]) -> tuple[str, ...]:
    by_region = "; ".join(f"{one.region} {_usd(one.usd)}" for one in sorted(found, key=lambda one: one.region))
    sources = sorted({f"`{one.source}`, {one.date}" for one in found})
    reason = what.get("reason", "no dated price was found")
    return (
        name,
        unit,
        by_region or "unknown",
        "; ".join(sources) or _NONE,
        (what.get("note", _NONE) if found else reason),
    )


def _equivalences() -> Iterator[str]:
    yield from _heading("Differences that do not change a figure")
    fields: dict[tuple[str, str], list[str]] = {}
    for section, prefix in (("fields", ""), ("flags", "--"), ("env", "env ")):
        for name, rule in ledger.section("equivalences", section).items():
            values = ("not set" if v is None else _scalar(v) for v in rule.get("either", ("any value",)))
            fields.setdefault((", ".join(values), rule["argument"].strip()), []).append(f"`{prefix}{name}`")
    rows = [(", ".join(names), values, argument) for (values, argument), names in fields.items()]
    yield from _table(("field", "equivalent values", "justification"), rows)
    yield "Once listed there, and withdrawn:"
    yield ""
    withdrawn = ledger.section("equivalences", "withdrawn").items()
    rows = [(f"`{name}`", ", ".join(one["values"]), one["evidence"].strip()) for name, one in withdrawn]
    yield from _table(("field", "values", "evidence"), rows)
    yield from _fp8_products()


def _disaggregation() -> Iterator[str]:
    yield from _heading("Prefill and decode on separate engines")
    tried = ledger.section("disaggregation", "tried")
    rows = [(f"`{name}` {one['title']}", one["outcome"], one["cause"]) for name, one in tried.items()]
    yield from _table(("the article's attempt", "outcome", "cause, read in vLLM's source"), rows)
    first = ledger.section("disaggregation", "first")
    rows = [(name.replace("-", " "), one["version"], one["why"]) for name, one in first.items()]
    yield from _table(("hybrid model", "first right release", "why not before"), rows)
    measured = ledger.section("disaggregation", "measured")
    rows = [
        (f"prefill, {name}", f"{one['requests_per_s']} requests/s, {one['prompt_tokens_per_s']:,} prompt tok/s", "")
        for name, one in measured["prefill"].items()
    ]
    rows += [
        (f"decode, {name}", f"{one['total']:,} tok/s, ITL p99 {one['itl_p99_ms']} ms", one.get("note", ""))
        for name, one in measured["decode"].items()
    ]
    yield from _table(("each alone on one H200, vLLM 0.33.0, no drafts", "measured", "note"), rows)
    yield from _together_and_apart()
    published = ledger.section("disaggregation", "published").values()
    rows = [(one["title"], one["result"], one["origin"]) for one in published]
    yield from _table(("published by others", "result", "origin"), rows)


def _together_and_apart() -> Iterator[str]:
    """Two GPUs, together and apart."""
    rows = []
    for name, one in ledger.section("disaggregation", "pair")["runs"].items():
        first, gap = one["ttft_s"], one["itl_ms"]
        each = f"{one['requests_per_s']} requests/s, {one['output']:,} output tok/s"
        latency = f"TTFT {first[0]} and {first[1]} s, TPOT {one['tpot_ms'][0]} ms, ITL {gap[0]} and {gap[1]} ms"
        rows.append((name.replace("-", " "), each, latency, one.get("note", "")))
    yield from _table(("two H200, vLLM 0.33.0, no drafts", "measured", "median and p99", "note"), rows)
    runs = ledger.section("disaggregation", "rendered")["runs"].values()
    rows = [
        (
            one["title"],
            f"{one['times']}",
            *(_apart_and_together(one, name) for name in ("requests_per_s", "ttft_s", "itl_p99_ms")),
        )
        for one in runs
    ]
    title = "two H200, the rendered pod, apart and together"
    yield from _table((title, "requests/s apart, times together", "requests/s", "TTFT, median, s", "ITL p99, ms"), rows)


def _apart_and_together(run: Mapping[str, Any], name: str) -> str:
    return " and ".join(map(str, run[name]))


def _fp8_products() -> Iterator[str]:
    yield "### Block-wise FP8 products and rows that are no multiple of four"
    yield ""
    content = ledger.load("fp8_products")
    rows = [
        (name.removeprefix("rows-"), f"{one['aligned_ms']} ms", f"{one['unaligned_ms']} ms")
        for name, one in content["prefill"].items()
    ]
    yield from _table(("tokens of a prompt, one H200, vLLM 0.33.0 with CUTLASS", "so many", "one less"), rows)
    rows = [
        (name.removeprefix("rows-"), f"{one['plain_us']:,} us", f"{one['padded_us']:,} us")
        for name, one in content["padded"].items()
        if name != "source"
    ]
    yield from _table(("rows of one product, H200, vLLM 0.33.0 with CUTLASS", "as called", "rows padded first"), rows)
    rows = [
        (name.removeprefix("rows-"), f"{one['before_us']:,} us", f"{one['after_us']:,} us")
        for name, one in content["published"].items()
    ]
    yield from _table(("rows of one product, GB300, as published with the fix", "before", "after"), rows)
    rate = content["derived"]["rows-per-s"]
    yield f"Derived for one B200: {rate['unaligned']:,} rows a second before the fix, {rate['fixed']:,} after it; the record needs"
    yield f"{rate['record']:,}."
    yield ""


def _disputes() -> Iterator[str]:
    yield from _heading("Disputes and errata")
    yield "All values are kept uncorrected in the data."
    yield ""
    affected: dict[str, list[str]] = {}
    for figure in figures.all_figures():
        for id_ in figure.dispute_ids:
            affected.setdefault(id_, []).append(f"`{figure.id}`")
    for id_ in ledger.section("disputes", "disputes"):
        dispute = ledger.dispute(id_)
        yield f"### {id_}"
        yield ""
        yield f"{dispute.subject[0].upper()}{dispute.subject[1:]}."
        yield ""
        for value in dispute.values:
            yield f"- {value}"
        yield ""
        yield dispute.note
        if id_ in affected:
            yield ""
            yield f"Figures: {', '.join(affected[id_])}."
        yield ""


def _digests() -> Iterator[str]:
    yield from _heading("Differences in other texts")
    yield "Four texts retell the article. Their differing statements are not used."
    yield ""
    rows = [
        (f"`{id_}`", point["says"], point["article"], point["so"])
        for id_, points in ledger.section("digests", "digests").items()
        for point in points
    ]
    yield from _table(("text", "statement", "the article", "conclusion"), rows)


def _reproduced() -> Iterator[str]:
    yield from _heading("Runs that profiles reproduce")
    yield "Each of these profiles has the options of one published run. This project has not run them on the article's machines."
    yield "[planner-model.md](planner-model.md) has the planner's errors."
    yield ""
    rows = [(f"`{one.reproduces}`", f"`{one.name}`", one.title) for one in map(profile, NAMES) if one.reproduces]
    yield from _table(("row", "profile", "what"), sorted(rows))


def _dated() -> Iterator[str]:
    yield from _heading("Outdated statements, and limits of the workload")
    rows = [
        (point["title"], point["then"], " ".join(point["now"].split()), point["so"])
        for point in ledger.section("dated", "points").values()
    ]
    yield from _table(("subject", "in the article", "today", "conclusion"), rows)


def _heading(text: str) -> Iterator[str]:
    yield f"## {text}"
    yield ""


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headers)} |"
    yield f"|{' --- |' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') or _NONE for cell in row)} |"
    yield ""


def _links(ids: Sequence[str]) -> str:
    return ", ".join(f"[{id_}](#{id_})" for id_ in ids) or _NONE


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if amount == round(amount, 2) else f"${amount}"


def _lengths(tokens: Mapping[str, int] | None) -> str:
    if tokens is None:
        return "the file's"
    return f"{tokens['min']} to {tokens['max']}, mean {tokens['mean']}"


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " / ".join(_plain(inner) for inner in value)
    return _scalar(value)


if __name__ == "__main__":
    main()
