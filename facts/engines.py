"""One spelling for vLLM's options, so that two lists can be compared.

Source: vLLM 0.18.1, utils/argparse_utils.py and engine/arg_utils.py: options read with dashes or underscores, `--no-x`
for off, `-O3`, JSON or dotted pieces, 16k for 16,000 and 16K for 16,384.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

Scalar = str | int | float | bool

_SHORT_NAMES = {
    "O": "optimization-level",
    "dp": "data-parallel-size",
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "ep": "enable-expert-parallel",
    "asc": "api-server-count",
}
# Options that read 16k and 16K as numbers.
_COUNTED = frozenset({"max-model-len", "max-num-batched-tokens"})
_SUFFIXES = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_UPPER_CASE = frozenset({"attention-backend"})
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_COUNT = re.compile(r"([0-9]+)([kKmMgG])")


def normalise_flags(flags: Mapping[str, object]) -> dict[str, Scalar]:
    """Options by long name without dashes, numbers as numbers, JSON objects as dotted names. None drops an option."""
    return dict(sorted(item for name, value in flags.items() for item in _normalised(name, value)))


def normalise_environment(env: Mapping[str, object]) -> dict[str, str]:
    """Environment variables with text values, by name."""
    return {name: str(value) for name, value in sorted(env.items())}


def _normalised(name: str, value: object) -> Iterator[tuple[str, Scalar]]:
    if value is None:
        return
    name = name.lstrip("-")
    name = _SHORT_NAMES.get(name, name)
    option, dot, key = name.partition(".")
    option = option.replace("_", "-")
    if option.startswith("no-") and isinstance(value, bool):
        option, value = option.removeprefix("no-"), not value
    if dot:
        yield f"{option}.{key}", _scalar(option, value)
        return
    pieces = _json_object(value)
    if pieces is None:
        yield option, _scalar(option, value)
        return
    for inner, inner_value in pieces.items():
        yield from _normalised(f"{option}.{inner}", inner_value)


def _json_object(value: object) -> Mapping[str, object] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None
    return None


def _scalar(option: str, value: object) -> Scalar:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if not isinstance(value, str):
        # Lists and nested objects have no scalar form: compare them as text, in one order.
        return json.dumps(value, sort_keys=True, default=str)
    if option in _COUNTED and (count := _COUNT.fullmatch(value)):
        return int(count[1]) * _SUFFIXES[count[2]]
    if _NUMBER.fullmatch(value):
        number = float(value)
        return int(number) if number.is_integer() else number
    if value in ("true", "false"):
        return value == "true"
    return value.upper() if option in _UPPER_CASE else value
