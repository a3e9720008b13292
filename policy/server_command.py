"""Finds the vLLM server in a container's command: direct, behind a wrapper that execs it, or in a shell script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

_MODULES: Final = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_OPERATORS: Final = frozenset({";", "&", "&&", "|", "||", ")"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A vLLM server's command."""

    entrypoint: str
    """`serve` or `module`."""
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the command itself sets, as in `env NAME=value vllm serve`."""


def is_server_image(image: str) -> bool:
    """Whether an image's name means that its entrypoint is `vllm serve`."""
    name = PurePosixPath(image.partition("@")[0]).name.partition(":")[0]
    return name == "vllm" or name.startswith("vllm-openai")


def server_arguments(words: Sequence[str]) -> Started | None:
    """The vLLM server that these words start, None without one."""
    given: dict[str, str] = {}
    for index, word in enumerate(words):
        if assigned := _ASSIGNED.fullmatch(word):
            given[assigned[1]] = assigned[2]
        program = PurePosixPath(word).name
        if program == "vllm" and words[index + 1 : index + 2] == ("serve",):
            return Started(entrypoint="serve", arguments=tuple(words[index + 2 :]), variables=given)
        if word == "-m" and index + 1 < len(words) and words[index + 1] in _MODULES:
            return Started(entrypoint="module", arguments=tuple(words[index + 2 :]), variables=given)
        if program in _SHELLS and (script := _script(words[index + 1 :])):
            started = _in_script(script)
            return started and replace(started, variables={**given, **started.variables})
    return None


def _script(words: Sequence[str]) -> str:
    """The word after `-c`, `-lc` or `-ec`."""
    for index, word in enumerate(words[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[index + 1]
    return ""


def _in_script(script: str) -> Started | None:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|)\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    command: list[str] = []
    given: dict[str, str] = {}
    try:
        for word in (*lexer, ";"):
            if word in _OPERATORS or not word.strip("\n"):
                if started := server_arguments(tuple(command)):
                    return replace(started, variables={**given, **started.variables})
                given |= {one[1]: one[2] for text in command if (one := _ASSIGNED.fullmatch(text))}
                command = []
            else:
                command.append(word)
    except ValueError:
        # Unbalanced quotes: not a valid script.
        return None
    return None
