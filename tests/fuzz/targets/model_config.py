"""A model's config.json, the catalogue's own with places damaged, or any bytes: in a stack file and for the planner."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from facts import ledger
from settings.load import check, parse
from settings.problems import SettingsError
from tests.fuzz.damage import damaged, damaged_bytes
from tests.fuzz.target import Target, fleet, require, require_problems
from tests.support.settings import make_config

_CONFIGS = [entry["config"] for entry in ledger.section("models", "models").values() if "config" in entry]
"""Real ones. Values that transformers allows stand in one or the other: 2 layers is every tiny test checkpoint."""
_TINY = (1, 2, 3, 4, 16, 64, 256, 0, -1, "2", 2.0, 1e3, 10**8, 10**400)
_WORDS = sorted({str(config["model_type"]) for config in _CONFIGS if "model_type" in config})
_FULL = ["full_attention", "linear_attention", "sliding_attention", "chunked_attention"]
_MORE = (
    *_TINY,
    *_WORDS,
    *_FULL,
    _FULL,
    ["full_attention"] * 2,
    "awq",
    "fp8",
    {"quant_method": "fp8"},
    {"quant_method": "modelopt"},
)


def judge(text: str) -> bool:
    """Refused in words, or a shape that every check of a stack, and the planner, can work with."""
    file = _folder() / "config.json"
    file.write_bytes(text.encode("latin-1"))
    model = {"id": "owner/name", "revision": "a" * 40, "sizeGb": 16.0, "config": str(file)}
    try:
        settings = parse("x", make_config(model=model, server={"replicas": 1, "profile": "serve-chat"}))
        problems = check(settings)
    except SettingsError as error:
        require_problems(error.problems)
        require(any("model" in one.subject for one in error.problems), "the model's key is not named", error)
        return False
    require_problems(problems)
    fleet("plan", "--model", str(file), "--tokens-per-second", "10000", place="plan --model")
    return True


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fleet-fuzz-"))


_AS_BYTES = [json.dumps(config).encode() for config in _CONFIGS[:4]]
TARGET = Target(
    inputs=damaged(_CONFIGS, more=_MORE).map(json.dumps)
    | damaged_bytes(
        _AS_BYTES,
        [b"[" * 3_000, b"{", b"NaN", b"1e999", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"0" * 5_000, b",", b'"'],
    ),
    judge=judge,
)
