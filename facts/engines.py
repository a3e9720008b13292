"""Parses, renders and compares vLLM's engine options. The only module that spells flags.

Parses like vLLM's parsers: `--a-b=v`, `--a-b v` and `--a_b` are the same option; unambiguous prefixes of a name are accepted; the last of
a repeated option wins; JSON options may be complete or in dotted parts; `-O3`, `-tp 8` and `-tp=8` are short forms; 16k is 16,000 and 16K
is 16,384. Rendering is the inverse: `render(parse(words).options) == words`.

Since 0.33 `--disable-x` is the opposite of `--enable-x`. `mistakes` finds what a release rejects; `facts.releases` has defaults.

Source: vLLM 0.18.1 and 0.33.0, utils/argparse_utils.py and engine/arg_utils.py; a test compares with the real parsers.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from facts.releases import DEFAULT as DEFAULT
from facts.releases import VERSIONS as VERSIONS
from facts.releases import Options
from facts.releases import Release as Release
from facts.releases import find as find

DEFAULT_READY_SECONDS: Final = 600
"""VLLM_ENGINE_READY_TIMEOUT_S. Source: envs.py of vLLM 0.18.1 and 0.33.0."""
KEEP_ALIVE: Final = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
"""Seconds that a server keeps an idle connection, 5 by default. Source: envs.py of vLLM 0.18.1 and 0.33.0."""
BEHIND_BALANCER_SECONDS: Final = 620
"""How long what stands behind Google's load balancers keeps an idle connection: longer than they do, or they send a request on one that
just closed, answer 502, and repeat no POST. Source: Cloud Load Balancing, timeouts and retries: 600 s; vllm-project/vllm#18472."""
EXIT_SECONDS: Final = 10
"""From the end of the drain to the kill: vLLM gives its processes 5 s, and closing eight engines takes a few more.
Source: vLLM 0.18.1, launcher.py."""
LEAST_DRAIN_SECONDS: Final = 5
"""Minimum of `server.drainSeconds`. Assumed: less lets load balancers send requests to a server that ends."""
LONGEST_CONTEXT_TOKENS: Final = 262_144
"""Native context window of Qwen3.5. Source: public config.json, max_position_embeddings."""
LONGEST_YARN_TOKENS: Final = 1_010_000
"""Longest context of Qwen3.5 with YaRN, with a factor of 4.0. Source: its model cards, "Processing Ultra-Long Texts"; the same in
vllm-project/recipes#398."""
CORES_PER_ENGINE: Final = 1.3
"""Measured: one engine on one H200 used 1.1 to 1.3 cores (2026-11-21)."""
CORES_PER_API_SERVER: Final = 0.75
"""Assumed: an API server tokenizes and streams one engine's requests with less than one core."""

Scalar = str | int | float | bool

_SUFFIXES: Final = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_COUNT: Final = re.compile(r"([0-9]+)([kKmMgG]?)")
_SHORT_COUNT: Final = re.compile(r"[0-9]+([kKmMgGtT]|\.[0-9]+[kmgt])")
_SUFFIXED: Final = re.compile(r"\b([0-9]+(?:\.[0-9]+)?)[kKmMgGtT]\b")
_FEW: Final = 3
"""Maximum number of options in an error."""
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
    # vLLM puts the dotted parts of an option after all other arguments, so they replace a complete value.
    parts: dict[str, Any] = {}
    waiting: str | None = None
    for word in arguments:
        if not _is_option(word):
            if waiting is not None:
                # Of a list option only the first value is kept: the model name in requests.
                if options.get(waiting) is True or waiting not in options:
                    options.pop(waiting, None)
                    _put(parts if "." in waiting else options, waiting, word)
                    waiting = waiting if "." not in waiting else None
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
            _put(parts if "." in name else options, name, value)
        elif name.startswith("no-") and name.removeprefix("no-") in kinds:
            options[name.removeprefix("no-")] = False
        else:
            options[name] = True
            waiting = None if kinds.get(name) == "switch" else name
    return Flags(entrypoint, tuple(positional), options | parts, written)


def _is_option(word: str) -> bool:
    return word not in ("-", "--") and word.startswith("-") and not re.fullmatch(r"-[0-9.]+", word)


def _split(word: str) -> tuple[str, str | None]:
    """Long name and value of `--name`, `--name=value`, `-O3`, `-tp=8`; the value is None if it is the next argument or absent."""
    if not word.startswith("--"):
        if word.startswith("-O") and word != "-O":
            return "optimization-level", word[2:].removeprefix("=")
        known = find(VERSIONS[-1]).options.short
        name, equals, value = word[1:].partition("=")
        short, dot, rest = name.partition(".")
        if short not in known and short[:1] in known:
            # As in `-n2`.
            return known[short[0]], word[2:]
        return known.get(short, short) + dot + rest, value if equals else None
    name, equals, value = word[2:].partition("=")
    option, dot, rest = name.partition(".")
    return _long_name(option.replace("_", "-")) + dot + rest, value if equals else None


def _put(options: dict[str, Any], name: str, value: str) -> None:
    option, dot, rest = name.partition(".")
    if not dot:
        options[name] = _parsed(value)
        return
    target: dict[str, Any] = options.setdefault(option, {})
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
        except (ValueError, RecursionError):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """An option that a release's parser rejects."""

    option: str
    """Long name without dashes; of an unknown option the name as written."""
    value: object
    because: str
    """The parser's error."""
    allowed: str
    """What it accepts."""


def mistakes(flags: Flags, release: Release) -> tuple[Mistake, ...]:
    """Options that a release's parser rejects."""
    return tuple(_mistakes(flags, release))


def _mistakes(flags: Flags, release: Release) -> Iterator[Mistake]:
    known = release.options
    for name, value in flags.options.items():
        spelling = flags.written.get(name, name)
        kind, choices = known.kinds.get(name), known.choices.get(name)
        positive = name.removeprefix("no-")
        if kind == "switch" or (kind is None and known.kinds.get(positive) == "switch"):
            if not isinstance(value, bool):
                yield Mistake(
                    option=name,
                    value=value,
                    because=f"--{name} is a switch and takes no value",
                    allowed=f"--{positive} or --no-{positive}",
                )
            elif _resolved(spelling, known) is None:
                yield _unknown(spelling, value, release)
        elif kind is None or _resolved(spelling, known) is None:
            yield _unknown(spelling, value, release)
        elif isinstance(value, bool):
            allowed = ", ".join(sorted(choices)) if choices else _TYPES.get(kind, _TEXT)[0]
            yield Mistake(
                option=name, value=value, because=f"--{name} needs a value", allowed=f"--{name}= with {allowed}"
            )
        elif choices and _word(str(value)) not in {_word(choice) for choice in choices}:
            because = f"--{name} of vLLM {release.version} does not allow this value"
            yield Mistake(option=name, value=value, because=because, allowed=", ".join(sorted(choices)))
        elif not _is_of(kind, value):
            allowed = _TYPES[kind][0]
            yield Mistake(option=name, value=value, because=f"--{name} takes {allowed}", allowed=allowed)


def _unknown(spelling: str, value: object, release: Release) -> Mistake:
    known = release.options
    value = isinstance(value, bool) or value
    several = sorted({one for one in known.spelled if one.startswith(spelling)})
    if len(several) > 1:
        names = ", ".join(f"--{one}" for one in several[:_FEW])
        because = f"--{spelling} abbreviates several options"
        return Mistake(option=spelling, value=value, because=because, allowed=f"a full name: {names}")
    others = [version for version in VERSIONS if _resolved(spelling, find(version).options) is not None]
    elsewhere = f"; vLLM {others[-1]} has it" if others else ""
    near = [f"--{match_}" for match_ in difflib.get_close_matches(spelling, known.kinds, n=_FEW)]
    return Mistake(
        option=spelling,
        value=value,
        because=f"vLLM {release.version} has no option --{spelling}{elsewhere}",
        allowed=f"an option of vLLM {release.version}" + (f", such as {', '.join(near)}" if near else ""),
    )


def _is_of(kind: str, value: object) -> bool:
    """Whether a parser's type accepts a value. Optional types accept an empty text and None."""
    if value in ("", "None") or kind not in _TYPES:
        return True
    if isinstance(value, Mapping):
        return kind == "json"
    try:
        _TYPES[kind][1](str(value))
    except (ValueError, RecursionError):
        return False
    return True


def _as_count(value: str) -> object:
    return value.strip().lower() in ("auto", "-1") or _SHORT_COUNT.fullmatch(value.strip()) or int(value)


def _as_json(value: str) -> object:
    # vLLM expands 80g outside of quotes.
    parts = value.split('"')
    parts[::2] = [_SUFFIXED.sub(r"\1", part) for part in parts[::2]]
    return json.loads('"'.join(parts))


_TEXT: Final = ("a text", str)
_TYPES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "int": ("a whole number", int),
    "count": ("a whole number, also as 16k or 16K", _as_count),
    "number": ("a number", float),
    "json": ("JSON", _as_json),
}
"""Types of values: description, and a function that raises ValueError for what they reject."""


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
