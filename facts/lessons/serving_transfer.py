"""Rules for a vLLM server that hands its cache to another one, or takes it: prefill apart from decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from facts.ledger import value
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.releases import number_of

_FIRST: Final[Mapping[str, Any]] = value("disaggregation.first")
_NEVER: Final[Sequence[str]] = value("disaggregation.never")
LAYOUT: Final = "VLLM_SSM_CONV_STATE_LAYOUT"
"""Order of the convolution state in memory; `DS` has its dimension first, which NIXL's worker asserts since 0.20. Source: vLLM 0.33.0,
distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py."""


def _connector(server: Served) -> str:
    return str(server.flags.json("kv-transfer-config").get("kv_connector") or "")


def _connector_of_a_hybrid(server: Served, _: Limits) -> Iterator[Breach]:
    connector = _connector(server)
    if not connector or not server.is_hybrid:
        return
    first = _FIRST["with-drafts" if server.flags.speculative_tokens else "without-drafts"]
    if connector in _NEVER:
        yield Breach(
            option="kv-transfer-config",
            value=connector,
            allowed="left out, or NixlConnector",
            why=f"{connector} has no cache for the recurrent states of a hybrid model, and corrupts answers or does not start",
            changes={"kv-transfer-config": None},
        )
    elif server.read_as.number < number_of(first["version"]):
        yield Breach(
            option="kv-transfer-config",
            value=connector,
            allowed=f"left out, or vLLM {first['version']} or later",
            because=f"the server is vLLM {server.read_as.version}"
            + (" and drafts" if server.flags.speculative_tokens else ""),
            why=first["why"],
            changes={"kv-transfer-config": None},
        )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="kv-connector-on-hybrid",
        statement="A hybrid model hands its cache to another engine only in a release that hands over its states, too.",
        evidence="the article's prefill and decode transferred nothing, and would have answered wrongly (facts/data/disaggregation.yaml). "
        f"Without drafts {_FIRST['without-drafts']['version']} is the first right release, with them {_FIRST['with-drafts']['version']} "
        "(read, not run)",
        level_reason="answers are wrong without any error, or the server does not start",
        fix="remove {kv-transfer-config}, or use a release that is right",
        level="mandatory",
        severity="critical",
        judge=_connector_of_a_hybrid,
    ),
)
