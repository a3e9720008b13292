"""Parses, renders and compares vLLM's engine options. The only module that spells flags.

Parses like vLLM's parsers: `--a-b=v`, `--a-b v` and `--a_b` are the same option; unambiguous prefixes of a name are accepted; the last of
a repeated option wins; JSON options may be complete or in dotted parts; `-O3`, `-tp 8` and `-tp=8` are short forms; 16k is 16,000 and 16K
is 16,384. Rendering is the inverse: `render(parse(words).options) == words`.

Since 0.33 `--disable-x` is the opposite of `--enable-x`. `mistakes` finds what a release rejects; `facts.releases` has defaults.

Source: vLLM 0.18.1 and 0.33.0, utils/argparse_utils.py and engine/arg_utils.py; a test compares with the real parsers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from facts.releases import DEFAULT as DEFAULT
from facts.releases import VERSIONS as VERSIONS
from facts.releases import Options
from facts.releases import Release as Release
from facts.releases import find as find

DEFAULT_READY_SECONDS: Final = 600
"""VLLM_ENGINE_READY_TIMEOUT_S. Source: envs.py of vLLM 0.18.1 and 0.33.0."""
EXIT_SECONDS: Final = 10
"""From the end of the drain to the kill: vLLM gives its processes 5 s, and closing eight engines takes a few more.
Source: vLLM 0.18.1, launcher.py."""
LONGEST_CONTEXT_TOKENS: Final = 262_144
"""Native context window of Qwen3.5. Source: public config.json, max_position_embeddings."""
CORES_PER_ENGINE: Final = 1.3
"""Measured: one engine on one H200 used 1.1 to 1.3 cores (2026-11-21)."""
CORES_PER_API_SERVER: Final = 0.75
"""Assumed: an API server tokenizes and streams one engine's requests with less than one core."""

Scalar = str | int | float | bool

_SUFFIXES: Final = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_COUNT: Final = re.compile(r"([0-9]+)([kKmMgG]?)")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# Options that accept 16k and 16K.
_COUNTED: Final = frozenset({"max-model-len", "max-num-batched-tokens"})
_UPPER_CASE: Final = frozenset({"attention-backend"})


@dataclass(frozen=True, slots=True)
class Flags:
    """Options by long name without dashes: switches as bool, JSON parsed, everything else as text."""

    entrypoint: str
    positional: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    """Original spelling of options, if known."""

    def __contains__(self, name: str) -> bool:
        return name in self.options

    @property
    def model(self) -> str | None:
        """The model: the first argument of `vllm serve`, else the option."""
        if self.entrypoint == "serve" and self.positional:
            return self.positional[0]
        return self.text("model")

    def text(self, name: str) -> str | None:
        """An option as text; None if it is not set."""
        value = self.options.get(name)
        return None if value is None or isinstance(value, bool | Mapping) else str(value)

    def count(self, name: str) -> int | None:
        """An option as an integer (16k is 16,000, 16K is 16,384); None if it is not set or not a number."""
        match = _COUNT.fullmatch(self.text(name) or "")
        return None if match is None else int(match[1]) * _SUFFIXES.get(match[2], 1)

    def number(self, name: str) -> float | None:
        """An option as a number; None if it is not set or not a number."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def on(self, name: str) -> bool | None:
        """A switch: True for `--x`, False for `--no-x`, None if it is not set."""
        value = self.options.get(name)
        return value if isinstance(value, bool) else None

    def json(self, name: str) -> Mapping[str, Any]:
        """A JSON option, complete or merged from dotted parts; empty if it is not set or not an object."""
        value = self.options.get(name)
        return value if isinstance(value, Mapping) else {}

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens per step; 0 without speculative decoding."""
        try:
            return int(self.json("speculative-config").get("num_speculative_tokens", 0))
        except (TypeError, ValueError):
            return 0

    @property
    def uses_mtp(self) -> bool:
        """Whether the checkpoint's MTP layer drafts."""
        return self.speculative_tokens > 0 and str(self.json("speculative-config").get("method", "")).endswith("mtp")

    @property
    def tensor_parallel_size(self) -> int:
        """GPUs of one engine."""
        return self.count("tensor-parallel-size") or 1

    @property
    def engines(self) -> int:
        """Engines in this pod: its share of the data-parallel ranks."""
        size = self.count("data-parallel-size") or 1
        return self.count("data-parallel-size-local") or size

    @property
    def api_servers(self) -> int:
        """API server processes in this pod: one per engine with `vllm serve`, always one with the module."""
        if self.entrypoint != "serve":
            return 1
        if "data-parallel-rank" in self or "data-parallel-external-lb" in self:
            return 1
        return self.count("api-server-count") or self.engines


def parse(arguments: Sequence[str], *, entrypoint: str = "serve") -> Flags:
    """Parse a server's arguments. Invalid options are kept as text; `mistakes` finds them."""
    kinds = {**find(VERSIONS[-1]).options.kinds, **find(DEFAULT).options.kinds}
    written: dict[str, str] = {}
    positional: list[str] = []
    options: dict[str, Any] = {}
    words = iter(arguments)
    waiting: str | None = None
    for word in words:
        if not _is_option(word):
            if waiting is not None:
                # Of a list option only the first value is kept: the model name in requests.
                if options.get(waiting) is True or waiting not in options:
                    _put(options, waiting, word)
            else:
                positional.append(word)
            continue
        name, value = _split(word)
        if word.startswith("--"):
            written[name.partition(".")[0].removeprefix("no-")] = (
                word[2:].partition("=")[0].partition(".")[0].replace("_", "-")
            )
        waiting = None
        if value is not None:
            _put(options, name, value)
        elif name.startswith("no-") and name.removeprefix("no-") in kinds:
            options[name.removeprefix("no-")] = False
        else:
            options[name] = True
            waiting = None if kinds.get(name) == "switch" else name
    return Flags(entrypoint, tuple(positional), options, written)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not re.fullmatch(r"-[0-9.]+", word)


def _split(word: str) -> tuple[str, str | None]:
    """Long name and value of `--name`, `--name=value`, `-O3`, `-tp=8`; the value is None if it is the next argument or absent."""
    if not word.startswith("--"):
        short, equals, value = word[1:].partition("=")
        if short.startswith("O") and short[1:].isdigit():
            return "optimization-level", short[1:]
        return find(VERSIONS[-1]).options.short.get(short, short), value if equals else None
    name, equals, value = word[2:].partition("=")
    option, dot, rest = name.partition(".")
    return _long_name(option.replace("_", "-")) + dot + rest, value if equals else None


def _put(options: dict[str, Any], name: str, value: str) -> None:
    option, dot, rest = name.partition(".")
    if not dot:
        options[name] = _parsed(value)
        return
    options.pop(name, None)
    inner = options.get(option)
    target: dict[str, Any] = dict(inner) if isinstance(inner, Mapping) else {}
    options[option] = target
    *parents, last = rest.rstrip("+").split(".")
    for key in parents:
        target[key] = dict(target[key]) if isinstance(target.get(key), Mapping) else {}
        target = target[key]
    target[last] = _parsed(value)


def _parsed(value: str) -> Any:
    """Parse a JSON object; return everything else unchanged."""
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _long_name(name: str) -> str:
    """The option for a spelling or prefix in a known release, with `no-` if it disables the option."""
    tables = [find(version).options for version in (DEFAULT, VERSIONS[-1])]
    exact = next((table.spelled[name] for table in tables if name in table.spelled), None)
    return exact or next((found for table in tables if (found := _resolved(name, table))), name)


def _resolved(name: str, known: Options) -> str | None:
    """One parser's option for a spelling or an unambiguous prefix."""
    if name in known.spelled:
        return known.spelled[name]
    found = [spelling for spelling in known.spelled if spelling.startswith(name)]
    return known.spelled[found[0]] if len(found) == 1 else None


def mistakes(flags: Flags, release: Release) -> tuple[tuple[str, str], ...]:
    """Options that a release's parser rejects, each with the error."""
    known = release.options
    found = []
    for name, value in flags.options.items():
        spelling = flags.written.get(name, name)
        kind, choices = known.kinds.get(name), known.choices.get(name)
        if kind is None or _resolved(spelling, known) is None:
            found.append((name, f"vLLM {release.version} has no option --{spelling}"))
        elif kind == "switch" and not isinstance(value, bool):
            found.append((name, f"--{name} is a switch and takes no value"))
        elif choices and isinstance(value, str) and _word(value) not in {_word(one) for one in choices}:
            allowed = ", ".join(sorted(choices))
            found.append((name, f"--{name} of vLLM {release.version} does not allow {value}; allowed: {allowed}"))
    return tuple(found)


def _word(text: str) -> str:
    # Some options ignore case and accept dashes and underscores.
    return text.lower().replace("-", "_")


def render(options: Mapping[str, Any]) -> list[str]:
    """Options by long name as a container's arguments, in the given order, without those that are None.

    Each argument is one element of `args`, without a shell, so JSON needs no quoting.
    """
    return [_rendered(name, value) for name, value in options.items() if value is not None]


def _rendered(name: str, value: object) -> str:
    if name == "optimization-level":
        return f"-O{value}"
    if isinstance(value, bool):
        # vLLM's parser rejects --x=true.
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, Mapping):
        return f"--{name}={json.dumps(value, separators=(',', ':'))}"
    return f"--{name}={value}"


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
    name = find(VERSIONS[-1]).options.short.get(name, name)
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
        # Lists and nested objects are compared as sorted text.
        return json.dumps(value, sort_keys=True, default=str)
    if option in _COUNTED and (count := _COUNT.fullmatch(value)):
        return int(count[1]) * _SUFFIXES.get(count[2], 1)
    if _NUMBER.fullmatch(value):
        number = float(value)
        return int(number) if number.is_integer() else number
    if value in ("true", "false"):
        return value == "true"
    return value.upper() if option in _UPPER_CASE else value
