"""The programs that pods run, as they are shipped: the files of this folder without their words.

A docstring or a comment is for the reader of this repository. In a manifest it would be part of the object: a corrected sentence
would roll the servers or replace a benchmark's ConfigMap. So pods get the code alone, and the words stay here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PACKAGE: Final = "pod_scripts"
"""Folder of the Python programs, and the name that they import each other by, here and in a pod."""
BENCHMARK: Final = (
    "__init__",
    "barrier",
    "bench_client",
    "client_processes",
    "collect_metrics",
    "fetch_dataset",
    "fetch_tokenizer",
    "launch_clients",
    "play_run",
    "progress",
    "prompt_text",
    "results_bucket",
    "run_plan",
    "server_metrics",
    "trace_slices",
    "wait_for_server",
)
"""What a benchmark's pod needs of them, as a package; whatever one of them imports is among them."""

_PYTHON: Final = re.compile(
    r"""
      (?P<docstring>^(?P<indent>[ ]*)(?P<quotes>\"{3}|'{3})(?:\\.|(?!(?P=quotes)).)*(?P=quotes)[ ]*\n)
    | (?P<string>(?P<open>\"{3}|'{3}|["'])(?:\\.|(?!(?P=open)).)*(?P=open))
    | (?P<comment>[ ]*\#[^\n]*)
    | (?P<blank>(?<=\n)[ ]*\n)
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_WORDLESS: Final = re.compile(r"(?:[ ]*(?:#[^\n]*)?\n)*(?P<indent>[ ]*)")


def python_program(name: str) -> str:
    """The code of a program of `pod_scripts`, e.g. `python_program("with_api_key")`."""
    return code_of((FOLDER / PACKAGE / f"{name}.py").read_text(encoding="utf-8"))


def shell_program(name: str) -> str:
    """The code of a shell script of this folder, e.g. `shell_program("weights_download.sh")`."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return re.sub(r"^[ ]*#(?!!)[^\n]*\n|^[ ]*\n", "", text, flags=re.MULTILINE)


def code_of(text: str) -> str:
    """Python source without docstrings, comments and blank lines; nothing else changes.

    Not `ast.unparse`, whose text differs between Python versions: the same commit must give the same manifest on every laptop.
    """
    without = _PYTHON.sub(_kept, text)
    # Where a comment was the whole line, its line feed is left.
    return _PYTHON.sub(lambda found: "" if found["blank"] else found[0], without).lstrip("\n")


def _kept(found: re.Match[str]) -> str:
    if found["string"]:
        return found["string"]
    if not found["docstring"]:
        return ""
    indent, rest = found["indent"], _WORDLESS.match(found.string, found.end())
    alone = rest is not None and len(rest["indent"]) < len(indent)
    is_body = found.string[: found.start()].rstrip().endswith(":")
    return f"{indent}pass\n" if alone and is_body else ""
