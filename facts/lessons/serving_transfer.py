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
_BY_NIXL: Final = ("NixlConnector", "NixlPushConnector")
LAYOUT: Final = "VLLM_SSM_CONV_STATE_LAYOUT"
"""Order of the convolution state in memory; `DS` has its dimension first."""
# Source: vLLM 0.33.0, distributed/kv_transfer/kv_connector/v1/nixl: base_worker.py asserts the layout, connector.py warns of the role.
_LAYOUT_SINCE: Final = (0, 20, 0)
_ROLES_SINCE: Final = (0, 26, 0)


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


def _other_layout(server: Served, limits: Limits) -> Iterator[Breach]:
    if _connector(server) not in _BY_NIXL or not server.is_hybrid or server.read_as.number < _LAYOUT_SINCE:
        return
    chosen = server.env(LAYOUT)
    if chosen == "DS" or (chosen is None and LAYOUT in server.variables) or any(_connector_of_a_hybrid(server, limits)):
        return
    yield Breach(
        option=LAYOUT,
        value=chosen,
        allowed="DS",
        because=f"{{kv-transfer-config}} has {_connector(server)}, and the model has recurrent states",
        changes={LAYOUT: "DS"},
    )


def _both_roles(server: Served, _: Limits) -> Iterator[Breach]:
    role = server.flags.json("kv-transfer-config").get("kv_role")
    if _connector(server) in _BY_NIXL and role == "kv_both" and server.read_as.number >= _ROLES_SINCE:
        yield Breach(
            option="kv-transfer-config",
            value=role,
            allowed="left out, or kv_producer for prefill and kv_consumer for decode",
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
    Lesson(
        name="kv-transfer-state-layout",
        statement="A hybrid model that hands its cache over keeps its states in the order that the transfer needs.",
        evidence=f"since 0.20 NIXL's worker asserts {LAYOUT}=DS for models with recurrent states (source of 0.33.0)",
        level_reason="no replica becomes ready",
        fix=f"set {LAYOUT} to DS, on prefill and decode",
        level="mandatory",
        severity="medium",
        judge=_other_layout,
    ),
    Lesson(
        name="kv-transfer-without-role",
        statement="A server that hands its cache over is prefill or decode, and a router asks for each transfer.",
        evidence="vLLM moves nothing unless the request asks for it. The article's servers had both roles, and answered everything "
        "themselves with HTTP 200. kv_both is deprecated (source of 0.33.0)",
        level_reason="answers are right without a transfer",
        fix="remove {kv-transfer-config}, or give prefill and decode servers their roles behind a router that asks",
        level="advisory",
        severity="low",
        judge=_both_roles,
    ),
)
