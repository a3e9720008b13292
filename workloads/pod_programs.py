"""The Python programs that pods run, as they are shipped: the files beside the components without their words.

A docstring or a comment is for the reader of this repository. In a manifest it would be part of the object: a corrected sentence
would roll the servers or replace a benchmark's ConfigMap. So pods get the code alone, and the words stay here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PACKAGE: Final = "pod_scripts"
"""The name that the benchmark's programs have as a package in a pod."""

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


def benchmark_programs() -> dict[str, str]:
    """What a benchmark's pod needs, as a package: the code of each file of benchmark/pods, by its name there."""
    files = sorted((FOLDER / "benchmark" / "pods").glob("*.py"))
    return {file.name: python_program(f"benchmark/pods/{file.name}") for file in files}


def python_program(path: str) -> str:
    """The code of a program, e.g. `python_program("server/with_api_key.py")`."""
    return code_of((FOLDER / path).read_text(encoding="utf-8"))


@cache
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
