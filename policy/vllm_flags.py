"""What a vLLM server is started with, read from a container's words as vLLM 0.18.1 reads them.

`--a-b=v`, `--a-b v` and `--a_b` are one spelling; unambiguous beginnings of a name pass for it; the last of a repeated
option wins; JSON options may come whole or in dotted pieces; `-O3`, `-tp 8` and `-tp=8` are short forms.

Source: vLLM 0.18.1, utils/argparse_utils.py and engine/arg_utils.py; a test feeds the same words to the real parser.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

_OPTIONS_FILE: Final = Path(__file__).with_name("vllm_options.txt")
_MODULES: Final = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SUFFIXES: Final = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_COUNT: Final = re.compile(r"([0-9]+)([kKmMgG]?)")
_OPERATORS: Final = frozenset({";", "&", "&&", "|", "||", ")"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a server is started."""

    entrypoint: str
    """`serve` or `module`."""
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flags:
    """Options by long name without dashes. Booleans are bool, JSON is parsed, everything else is text."""

    entrypoint: str
    positional: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    @property
    def model(self) -> str | None:
        """What is served: `vllm serve` takes it as its first argument, the module ignores one there."""
        if self.entrypoint == "serve" and self.positional:
            return self.positional[0]
        return self.text("model")

    def text(self, name: str) -> str | None:
        """An option as text, None where it is left out."""
        value = self.options.get(name)
        return None if value is None or isinstance(value, bool | Mapping) else str(value)

    def count(self, name: str) -> int | None:
        """An option as a whole number (16k is 16,000, 16K is 16,384), None where it is left out or none."""
        match = _COUNT.fullmatch(self.text(name) or "")
        return None if match is None else int(match[1]) * _SUFFIXES.get(match[2], 1)

    def number(self, name: str) -> float | None:
        """An option as a number, None where it is left out or none."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def on(self, name: str) -> bool | None:
        """A switch: True for `--x`, False for `--no-x`, None where it is left out."""
        value = self.options.get(name)
        return value if isinstance(value, bool) else None

    def json(self, name: str) -> Mapping[str, Any]:
        """A JSON option, whole or put together from its dotted pieces; empty where it is left out or no object."""
        value = self.options.get(name)
        return value if isinstance(value, Mapping) else {}

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens per step, 0 without speculation."""
        try:
            return int(self.json("speculative-config").get("num_speculative_tokens", 0))
        except (TypeError, ValueError):
            return 0

    @property
    def uses_mtp(self) -> bool:
        """Whether the checkpoint's own layer drafts."""
        return self.speculative_tokens > 0 and str(self.json("speculative-config").get("method", "")).endswith("mtp")

    @property
    def tensor_parallel_size(self) -> int:
        """GPUs one engine is split over."""
        return self.count("tensor-parallel-size") or 1

    @property
    def engines(self) -> int:
        """Engines in this pod: its share of the data-parallel ranks."""
        size = self.count("data-parallel-size") or 1
        return self.count("data-parallel-size-local") or size

    @property
    def api_servers(self) -> int:
        """HTTP processes in this pod: one per engine under `vllm serve`, always one under the module."""
        if self.entrypoint != "serve":
            return 1
        if "data-parallel-rank" in self or "data-parallel-external-lb" in self:
            return 1
        return self.count("api-server-count") or self.engines


def is_server_image(image: str) -> bool:
    """Whether an image starts `vllm serve` by itself, by its name."""
    name = PurePosixPath(image.partition("@")[0]).name.partition(":")[0]
    return name == "vllm" or name.startswith("vllm-openai")


def server_arguments(words: Sequence[str]) -> Started | None:
    """How these words start a vLLM server, directly, through a wrapper that execs it, or in a shell's script."""
    for index, word in enumerate(words):
        program = PurePosixPath(word).name
        if program == "vllm" and words[index + 1 : index + 2] == ("serve",):
            return Started(entrypoint="serve", arguments=tuple(words[index + 2 :]))
        if word == "-m" and index + 1 < len(words) and words[index + 1] in _MODULES:
            return Started(entrypoint="module", arguments=tuple(words[index + 2 :]))
        if program in _SHELLS and (script := _script(words[index + 1 :])):
            return _in_script(script)
    return None


def _script(words: Sequence[str]) -> str:
    """What a shell is asked to run: the word after `-c`, also in `-lc` or `-ec`."""
    for index, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[index + 1]
    return ""


def _in_script(script: str) -> Started | None:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|)\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for word in (*lexer, ";"):
            if word in _OPERATORS or not word.strip("\n"):
                if started := server_arguments(tuple(command)):
                    return started
                command = []
            else:
                command.append(word)
    except ValueError:
        # Quotes that do not end: not a script that runs either.
        return None
    return None


def parse(started: Started) -> Flags:
    """The options of a server. What vLLM would refuse is kept as text: this reads, it does not check."""
    positional: list[str] = []
    options: dict[str, Any] = {}
    words = iter(started.arguments)
    waiting: str | None = None
    for word in words:
        if not _is_option(word):
            if waiting is not None:
                # A second value of a list option keeps the first: the name clients use.
                if options.get(waiting) is True or waiting not in options:
                    _put(options, waiting, word)
            else:
                positional.append(word)
            continue
        name, value = _split(word)
        waiting = None
        if value is not None:
            _put(options, name, value)
        elif name.startswith("no-") and name.removeprefix("no-") in _known():
            options[name.removeprefix("no-")] = False
        else:
            options[name] = True
            waiting = None if _known().get(name) == "switch" else name
    return Flags(started.entrypoint, tuple(positional), options)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not re.fullmatch(r"-[0-9.]+", word)


def _split(word: str) -> tuple[str, str | None]:
    """Long name and value of `--name`, `--name=value`, `-O3`, `-tp=8`; the value is None where it follows or is none."""
    if not word.startswith("--"):
        short, equals, value = word[1:].partition("=")
        if short.startswith("O") and short[1:].isdigit():
            return "optimization-level", short[1:]
        return _options()[1].get(short, short), value if equals else None
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
    """JSON objects as mappings, everything else as it is."""
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _long_name(name: str) -> str:
    """The option that a beginning stands for, where it can only be one."""
    known = _known()
    positive = name.removeprefix("no-")
    if name in known or positive in known:
        return name
    candidates = list(_beginning_with(name))
    if len(candidates) == 1:
        return candidates[0]
    return name


def _beginning_with(name: str) -> Iterator[str]:
    for known, kind in _known().items():
        for spelling in (known, f"no-{known}") if kind == "switch" else (known,):
            if spelling.startswith(name):
                yield spelling


def _known() -> Mapping[str, str]:
    """Kind of every long option of vLLM 0.18.1: switch, value or list."""
    return _options()[0]


@lru_cache(maxsize=1)
def _options() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Kinds by long name, and long names by short form."""
    kinds: dict[str, str] = {}
    # Read by vLLM before its parser, which does not list it.
    short: dict[str, str] = {"O": "optimization-level"}
    for line in _OPTIONS_FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, kind, *forms = line.split()
            kinds[name] = kind
            short |= dict.fromkeys(forms, name)
    return kinds, short


def mistakes(flags: Flags) -> tuple[str, ...]:
    """What vLLM 0.18.1's parser would exit on: options it does not have, switches with a value."""
    found = []
    for name, value in flags.options.items():
        kind = _known().get(name)
        if kind is None:
            found.append(f"vLLM has no option --{name}")
        elif kind == "switch" and not isinstance(value, bool):
            found.append(f"--{name} is a switch and takes no value")
    return tuple(found)
