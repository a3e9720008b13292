"""The catalog of models, and what a model's name tells of its architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from facts import ledger
from facts.model_config import DRAFT, EXPERTS, LINEAR, VISION
from facts.model_config import ModelShape as ModelShape
from facts.model_config import from_config as from_config
from facts.releases import number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """A model of the catalog, with published data."""

    id: str
    """Hugging Face repository."""
    size_gb: float
    """Size of the weights that vLLM reads in GB (10**9 bytes)."""
    revision: str | None
    """Commit id of the repository; None if unknown."""
    tool_parser: str | None
    reasoning_parser: str | None
    min_vllm: str
    """Lowest vLLM release that supports it."""
    licence: str
    own_code: Mapping[str, str]
    """Code of the repository that vLLM needs to start: `why`, and `before`, the first release that has its own. Empty: none."""
    gated: bool
    """Whether a download needs a token of an account that accepted the license."""
    source: tuple[str, ...]
    """Sources of the config.json and the other data."""

    @property
    def shape(self) -> ModelShape:
        """Shape from its config.json."""
        return _shape(self.id)

    def why_own_code(self, version: str) -> str | None:
        """Why a vLLM release must run code of the repository to start; None if it need not."""
        before = self.own_code.get("before")
        return None if before and number_of(version) >= number_of(before) else self.own_code.get("why")


def called(names: Iterable[str]) -> ModelShape | None:
    """The catalog's model for one of these names: a repository, a folder, or a copy."""
    for name in names:
        if name in CATALOGUE:
            return CATALOGUE[name].shape
        inside = [one for one in CATALOGUE if one.partition("/")[2].lower() in name.lower()]
        # A distilled model has its teacher's name and another architecture.
        if inside and "distill" not in name.lower():
            return CATALOGUE[max(inside, key=len)].shape
    return None


def is_of_qwen35(name: str) -> bool:
    """Whether a model of this name is of the article's family."""
    return "Qwen3.5" in name


def _entry(id_: str) -> Mapping[str, Any]:
    """An entry of the file, with inherited fields."""
    entries: Mapping[str, Any] = ledger.section("models", "models")
    entry = entries[id_]
    return {**entries[entry["like"]], "revision": None, **entry} if "like" in entry else entry


@cache
def _shape(id_: str) -> ModelShape:
    entry = _entry(id_)
    return from_config({**entry["config"], "quantization_config": entry.get("quantization")}, id_)


def _catalogue_model(id_: str) -> CatalogueModel:
    entry = _entry(id_)
    try:
        return CatalogueModel(
            id=id_,
            size_gb=float(entry["sizeGb"]),
            revision=entry.get("revision"),
            tool_parser=entry.get("tools"),
            reasoning_parser=entry.get("reasoning"),
            min_vllm=entry["vllm"],
            licence=entry["licence"],
            own_code=entry.get("code", {}),
            gated=entry.get("gated", False),
            source=tuple(entry["source"]),
        )
    except KeyError as error:
        raise ledger.LedgerError(f"models.yaml, {id_}: {error.args[0]} is missing") from None


class _Catalogue(Mapping[str, CatalogueModel]):
    """The file's entries, read lazily because most commands need none."""

    def __getitem__(self, id_: str) -> CatalogueModel:
        return self._entries[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def _entries(self) -> Mapping[str, CatalogueModel]:
        return {id_: _catalogue_model(id_) for id_ in ledger.section("models", "models")}


CATALOGUE: Final[Mapping[str, CatalogueModel]] = _Catalogue()
"""Models by repository."""


def of_the_article() -> ModelShape:
    """Shape of Qwen3.5-27B-FP8. Measured: text and draft take 28.0 GiB on an H200; this arithmetic gives 27.8."""
    return CATALOGUE["Qwen/Qwen3.5-27B-FP8"].shape


_OPTIONS: Mapping[str, str] = {
    "mamba-cache-mode": LINEAR,
    "mamba-block-size": LINEAR,
    "mamba-ssm-cache-dtype": LINEAR,
    "gdn-prefill-backend": LINEAR,
    "language-model-only": VISION,
    "enable-expert-parallel": EXPERTS,
    "moe-backend": EXPERTS,
}
_FORMATS = {
    "qwen3": "the qwen3 format",
    "qwen3_coder": "the qwen3_coder format",
    "qwen3_xml": "the qwen3_coder format",
}
"""Formats of one family's reasoning or tool calls, by their parsers."""

# Source: public config.json of the checkpoints; vLLM's guides to tool calls and to reasoning.
_FAMILIES: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(name, re.IGNORECASE), frozenset(parts))
    for name, parts in (
        (r"Qwen3\.5", {LINEAR, DRAFT, VISION}),
        (r"Qwen3-Next", {LINEAR, DRAFT, EXPERTS}),
        (r"DeepSeek-(V3|R1(?!-Distill))", {DRAFT, EXPERTS}),
        (r"Qwen2(\.5)?-\d|Qwen3(-Coder)?-\d|Llama-[23]|Mistral-7B", set()),
    )
)
# Source: Qwen's naming: total parameters, then active ones.
EXPERTS_IN_A_NAME = re.compile(r"-A\d+(\.\d+)?B\b")


def parts_of(names: Iterable[str], shape: ModelShape | None = None) -> frozenset[str] | None:
    """Parts of a model that options apply to, by its shape or the first known of its names; None if both are unknown.

    Only the catalog knows a model's formats: a fine-tune can have another chat template, and any vocabulary, under its base's name.
    """
    names = tuple(names)
    parts = _parts_by_name(names) if shape is None else shape.parts
    if parts is None:
        return None
    ids = ("/".join(name.rsplit("/", 2)[-2:]) for name in names)  # also of a folder that ends with the id
    listed = next((CATALOGUE[id_] for id_ in ids if id_ in CATALOGUE), None)
    if listed is None:
        return parts | frozenset(_FORMATS.values())
    return parts | {_FORMATS[name] for name in (listed.tool_parser, listed.reasoning_parser) if name in _FORMATS}


def _parts_by_name(names: Iterable[str]) -> frozenset[str] | None:
    for name in names:
        for family, parts in _FAMILIES:
            if family.search(name):
                return parts | {EXPERTS} if EXPERTS_IN_A_NAME.search(name) else parts
    return None


def part_for(option: str, value: object) -> str | None:
    """The part of a model's architecture that an engine option with this value applies to; None if it applies to every model.

    `option` is vLLM's long name, `value` as `facts.engines.parse` returns it.
    """
    if value is None or value is False:
        return None
    if option == "speculative-config":
        return DRAFT if isinstance(value, Mapping) and str(value.get("method", "")).endswith("mtp") else None
    if option in ("reasoning-parser", "tool-call-parser"):
        return _FORMATS.get(str(value))
    return _OPTIONS.get(option)
