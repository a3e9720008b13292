"""Rules for a vLLM server's cache, sequences and context length."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from facts import memory
from facts.ledger import value
from facts.lessons.lesson import Breach, Lesson, Limits, Setting
from facts.lessons.limits import CONTEXT_SLACK, STATES_MARGIN
from facts.lessons.served import Served
from facts.releases import DEFECTS

_FULL: Final = value("phases.figures.dp8")
_FULL_CONTEXT: Final[int] = value("shapes.shapes.dp8-131k.flags.max-model-len")
_SHORT: Final[int] = value("phases.figures.dp8-4096.total_tokens_per_s")
_SHORT_CONTEXT: Final[int] = value("shapes.shapes.dp8-4096-090.flags.max-model-len")
_SCHEDULER_FULL: Final[str] = value("phases.figures.max-num-seqs-512.outcome")
_NO_CACHING: Final = dict.fromkeys(("enable-prefix-caching", "mamba-cache-mode", "mamba-block-size"))
_CORRUPTS: Final = next(defect for defect in DEFECTS if defect.id == "prefix-caching-with-mtp")


def _mode_left_out(server: Served, limits: Limits) -> Iterator[Breach]:
    if not server.needs_state_mode or "mamba-cache-mode" in server.flags:
        return
    if any(_never_hits(server, limits)):
        return  # prefix-cache-never-hits reports it; no mode helps
    yield Breach(
        option="mamba-cache-mode",
        value=None,
        allowed="align",
        because="{enable-prefix-caching} is set",
        changes={"mamba-cache-mode": "align"},
    )


def _flags_without_caching(server: Served, _: Limits) -> Iterator[Breach]:
    if server.is_hybrid and not server.prefix_caching and "mamba-block-size" in server.flags:
        yield Breach(
            option="mamba-block-size",
            value=server.flags.text("mamba-block-size"),
            allowed="left out",
            because="{enable-prefix-caching} is not set",
            changes={"mamba-block-size": None, "mamba-cache-mode": None},
        )


def _never_hits(server: Served, _: Limits) -> Iterator[Breach]:
    layout, longest = server.layout, server.context_tokens
    if not server.prefix_caching or layout is None or longest is None:
        return
    shortest = memory.shortest_prompt_prefix_caching_can_hit(layout)
    if shortest is not None and longest < shortest:
        dropped = ", and MTP drops the last matched block" if server.flags.speculative_tokens else ""
        yield Breach(
            option="enable-prefix-caching",
            value=True,
            allowed=f"left out, or {{max-model-len}} of {shortest} or more",
            because=f"{{max-model-len}} is {longest}, and no prompt below {shortest} tokens can hit",
            why=f"a cache block of this model is {memory.attention_block_tokens(layout)} tokens with these options, the last token is "
            f"always computed{dropped}; the article had no hit, and the option costs a quarter of the concurrency that vLLM estimates",
            changes=_without_caching(server),
        )


def _without_caching(server: Served) -> dict[str, object]:
    """Options that turn prefix caching off in the server's release."""
    by_default = server.read_as.has("caches-prefixes-of-hybrids")
    return {**_NO_CACHING, "enable-prefix-caching": False} if by_default else dict(_NO_CACHING)


def _corrupted(server: Served, limits: Limits) -> Iterator[Breach]:
    if not server.mtp_tokens or not server.prefix_caching:
        return
    # The shortest prompt that hits is known for releases with caching off by default; later releases match shorter pieces.
    if any(_never_hits(server, limits)) and not server.read_as.has("caches-prefixes-of-hybrids"):
        return
    asked = server.flags.on("enable-prefix-caching")
    yield Breach(
        option="enable-prefix-caching",
        value=asked,
        allowed="false, or no MTP",
        because="{speculative-config} drafts with MTP"
        + ("" if asked else f", and vLLM {server.read_as.version} enables prefix caching by default"),
        changes={**_NO_CACHING, "enable-prefix-caching": False},
    )


def _too_few_sequences(server: Served, _: Limits) -> Iterator[Breach]:
    offered, engines, each = server.offered_concurrency, server.answering_engines, server.sequences
    if offered is not None and each * engines < offered:
        needed = ceil(offered / engines)
        yield Breach(
            option="max-num-seqs",
            value=each,
            allowed=f"{needed} or more",
            because=f"{offered} requests are in flight ({{offered-concurrency}}), and {engines} engine(s) admit {each * engines}",
            changes={"max-num-seqs": needed},
        )


def _refused_above_state(server: Served, _: Limits) -> Iterator[Breach]:
    layout = server.layout
    if layout is None or not server.has_measured_states or "max-num-seqs" not in server.flags:
        return
    limit = memory.max_num_seqs_limit(layout, server.cache_gib())
    if server.sequences > limit * STATES_MARGIN and server.refuses_sequences_above_states:
        yield Breach(
            option="max-num-seqs",
            value=server.sequences,
            allowed=f"up to {limit}",
            because="about as many recurrent states fit one GPU",
            changes={"max-num-seqs": min(limit, server.read_as.sequences(server.judged_gpu))},
        )


def _context_below_need(server: Served, _: Limits) -> Iterator[Breach]:
    configured, needed = server.context_tokens, server.needed_context_tokens
    if configured is not None and needed is not None and configured < needed:
        yield Breach(
            option="max-model-len",
            value=configured,
            allowed=f"{needed} or more",
            because=f"requests need up to {needed} tokens ({{needed-context}})",
            changes={"max-model-len": needed},
        )


def _context_above_need(server: Served, limits: Limits) -> Iterator[Breach]:
    configured, needed = server.context_tokens, server.needed_context_tokens
    if configured is not None and needed and configured > needed * limits["slack"]:
        yield Breach(
            option="max-model-len",
            value=configured,
            allowed=f"{needed} to {needed * limits['slack']:g}",
            because=f"it is {configured / needed:.0f} times the {needed} tokens that requests need ({{needed-context}})",
            instead={"needed-context": configured},
            changes={"max-model-len": needed},
        )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="hybrid-prefix-cache-flags",
        statement="Prefix caching of a hybrid model sets the cache mode of its states.",
        evidence="vLLM 0.18.1 defaults to align and replaces every block size (run). The article reports a tenfold loss without "
        "both flags, without a release or a figure",
        level_reason="the known release does not need the flag",
        fix="{mamba-cache-mode=align} with {enable-prefix-caching}",
        level="advisory",
        severity="low",
        judge=_mode_left_out,
    ),
    Lesson(
        name="mamba-flags-without-prefix-caching",
        statement="A block size for states is set with prefix caching only.",
        evidence="vLLM 0.18.1 does not start with {mamba-block-size} but without prefix caching, which is off by default for hybrid "
        "models (run)",
        level_reason="no replica becomes ready",
        fix="remove {mamba-block-size} and {mamba-cache-mode}, or set {enable-prefix-caching=true}",
        level="mandatory",
        severity="high",
        judge=_flags_without_caching,
    ),
    Lesson(
        name="prefix-cache-never-hits",
        statement="Prefix caching is enabled only if prompts can be long enough to hit.",
        evidence="vLLM makes a block of a hybrid model as large as one state; a prompt shorter than one block, two with MTP, cannot "
        "hit (0.18.1's cache manager, run)",
        level_reason="the flag has a cost and no effect",
        fix="remove {enable-prefix-caching}, {mamba-cache-mode} and {mamba-block-size}",
        level="mandatory",
        severity="medium",
        judge=_never_hits,
    ),
    Lesson(
        name="prefix-caching-with-mtp",
        statement="A hybrid model uses prefix caching or MTP, not both, unless no prompt can hit.",
        evidence=f"{_CORRUPTS.what} ({_CORRUPTS.source})",
        level_reason="responses are wrong without any error",
        fix="{enable-prefix-caching=false}, or remove {speculative-config} if long prompts repeat",
        level="mandatory",
        severity="critical",
        judge=_corrupted,
    ),
    Lesson(
        name="sequences-below-load",
        statement="A replica's engines admit all requests of the expected load.",
        evidence=f"the scheduler admits no more than {{max-num-seqs}} per engine; 512 on one engine: {_SCHEDULER_FULL} "
        "(the article, phase 1)",
        level_reason="GPUs are idle while requests wait",
        fix="raise {max-num-seqs} to the load divided by the engines",
        level="mandatory",
        severity="medium",
        judge=_too_few_sequences,
    ),
    Lesson(
        name="max-num-seqs-refused",
        statement="With a release that checks it, a server admits no more sequences than it has memory for states.",
        evidence="vLLM 0.20.2 did not start with 8192 sequences for this model and reported its number of state blocks (own trial on an "
        "H200)",
        level_reason="no replica becomes ready. Up to 10 % above the estimate is allowed",
        fix="lower {max-num-seqs} to the number of states that fit",
        level="mandatory",
        severity="high",
        judge=_refused_above_state,
    ),
    Lesson(
        name="context-below-need",
        statement="The context is long enough for the longest expected request.",
        evidence="the server rejects longer requests with an error",
        level_reason="users get errors",
        fix="raise {max-model-len} to the declared need",
        level="mandatory",
        severity="medium",
        judge=_context_below_need,
    ),
    Lesson(
        name="context-far-above-need",
        statement="The context is not much longer than the expected traffic needs.",
        evidence=f"with {_FULL_CONTEXT:,} for 1,500-token requests the cache was {_FULL['details']['kv_cache_usage_percent']} % full and "
        f"{_FULL['details']['waiting_requests']} requests waited: {_FULL['total_tokens_per_s']:,} tok/s instead of {_SHORT:,} with "
        f"{_SHORT_CONTEXT:,} (the article, phases 2 and 3)",
        level_reason="it costs an eighth of the throughput",
        fix="lower {max-model-len} to the declared need",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="slack",
                type="number",
                unit="times the need",
                default=CONTEXT_SLACK,
                why="maximum ratio of context to need",
            ),
        ),
        judge=_context_above_need,
    ),
)
