"""Finds the vLLM server in a container's command: direct, behind a wrapper that execs it, or in a shell script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

_MODULES: Final = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_OPERATORS: Final = frozenset({";", "&", "&&", "|", "||", ")"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A vLLM server's command."""

    entrypoint: str
    """`serve` or `module`."""
    arguments: tuple[str, ...]


def is_server_image(image: str) -> bool:
    """Whether an image's name means that its entrypoint is `vllm serve`."""
    name = PurePosixPath(image.partition("@")[0]).name.partition(":")[0]
    return name == "vllm" or name.startswith("vllm-openai")


def server_arguments(words: Sequence[str]) -> Started | None:
    """The vLLM server that these words start, None without one."""
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
    try:
        for word in (*lexer, ";"):
            if word in _OPERATORS or not word.strip("\n"):
                if started := server_arguments(tuple(command)):
                    return started
                command = []
            else:
                command.append(word)
    except ValueError:
        # Unbalanced quotes: not a valid script.
        return None
    return None
