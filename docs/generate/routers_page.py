"""The page about measured routers, docs/routers.md: `python -m docs.generate.routers_page`.

The prose is in routers_page.md.template; every number comes from facts/data/routers.yaml, which `make bench-routers` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from facts import ledger, routers
from facts.workloads import named_workload

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "routers.md"
TEMPLATE = Path(__file__).with_name("routers_page.md.template")
NAMES: Mapping[str, str] = {
    "direct": "no router, a rank for each connection",
    "haproxy": "HAProxy, fewest requests",
    "haproxy-without-mark-down": "HAProxy without `on-error mark-down`",
    "vllm-router-power-of-two": "vllm-router, power_of_two",
    "vllm-router-cache-aware": "vllm-router, cache_aware",
    "vllm-router-cache-aware-pods": "vllm-router, cache_aware, eight targets",
    "picker": "endpoint picker",
    "picker-random": "endpoint picker, random picks",
}
_MILLION = 1e6


def page() -> str:
    """The whole page as Markdown."""
    content = ledger.load("routers")
    measured = content["measured"]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        date=measured["date"],
        machine=measured["machine"],
        versions=", ".join(f"{name} {version}" for name, version in measured["versions"].items()),
        cost="\n".join(_cost(content["cost"])),
        sizes="\n".join(_sizes()),
        balance="\n".join(_balance(content["balance"])),
        prefixes="\n".join(_prefixes(content["prefixes"])),
        streams="\n".join(_streams(content["streams"])),
        deaths="\n".join(_deaths(content["server_dies"], content["router_ends"])),
        busy=f"{100 * routers.BUSY_SHARE:.0f}",
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def _cost(rows: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "| | µs a request | µs a KiB of prompt | µs a chunk | requests/s a core | chunks/s a core | idle cores | first chunk p50, p99, ms |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, row in rows.items():
        first = f"{row['first_p50_us'] / 1e3:.1f}, {row['first_p99_us'] / 1e3:.1f}"
        if name == "direct":
            yield f"| {NAMES[name]} | 0 | 0 | 0 | | | 0 | {first} |"
            continue
        cost = routers.cost(name)
        request = cost.request_us + 3 * cost.kib_us + cost.chunk_us
        yield (
            f"| {NAMES[name]} | {cost.request_us:,.0f} | {cost.kib_us:.1f} | {cost.chunk_us:.0f} | {_MILLION / request:,.0f} "
            f"| {_MILLION / cost.chunk_us:,.0f} | {row['idle_cores']:.2f} "
            f"| {first} |"
        )


def _sizes() -> Iterator[str]:
    workload = named_workload("article")
    yield "| servers | requests/s | chunks/s | routers |"
    yield "| ---: | ---: | ---: | --- |"
    for servers, requests in ((1, 83), (4, 320), (8, 620), (12, 930)):
        chunks = requests * workload.output_tokens.mean / 1.9
        found = routers.size(
            requests_per_s=requests,
            prompt_kib=workload.input_tokens.mean * 4 / 1024,
            chunks_per_s=chunks,
            in_flight=24 * requests,
        )
        cell = "too much" if found is None else f"{found.replicas} x {found.cpu} vCPU, {found.memory_gib} GiB"
        yield f"| {servers} | {requests:,} | {chunks:,.0f} | {cell} |"


def _balance(rows: Mapping[str, Any]) -> Iterator[str]:
    yield "| | fullest rank, requests | fullest rank, tokens | tokens/s |"
    yield "| --- | ---: | ---: | ---: |"
    for name, row in rows.items():
        yield (
            f"| {NAMES[name]} | {row['requests_max_by_mean']:.2f} times the mean | {row['tokens_max_by_mean']:.2f} times "
            f"| {row['tokens_per_s']:,.0f} |"
        )


def _prefixes(rows: Mapping[str, Any]) -> Iterator[str]:
    yield "| | blocks of prompts found | requests/s |"
    yield "| --- | ---: | ---: |"
    for name, row in rows.items():
        yield f"| {NAMES[name]} | {100 * row['hit_share']:.0f} % | {row['requests_per_s']:,.0f} |"


def _streams(rows: Mapping[str, Any]) -> Iterator[str]:
    yield "| | processes | open at once | failed | KiB a stream |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, row in rows.items():
        yield (
            f"| {NAMES[name]} | {row['processes']} | {row['peak_open']:,} | {row['failed']:,} | {row['kib_per_stream']:.0f} |"
        )


def _deaths(*tables: Mapping[str, Any]) -> Iterator[str]:
    yield "| | open | errors that clients saw | seconds until none | answers with internal addresses |"
    yield "| --- | ---: | --- | ---: | ---: |"
    for rows, what in zip(tables, ("a server is killed", "a router"), strict=True):
        for name, row in rows.items():
            errors = ", ".join(f"{number:,} {kind}" for kind, number in row["errors"].items()) or "none"
            yield (
                f"| {what}: {_title(name)} | {row['open']:,} | {errors} | {row['seconds_until_none']:.1f} "
                f"| {row['with_internal_addresses']:,} |"
            )


def _title(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    for id_, title in NAMES.items():
        if name.removeprefix(id_) in ("-killed", "-stopped") and name.startswith(id_):
            return f"{title}, {name.removeprefix(id_).lstrip('-')}"
    return name


if __name__ == "__main__":
    main()
