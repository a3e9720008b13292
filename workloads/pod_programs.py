"""Python programs for pods: the source files of this folder, without docstrings and comments.

In a manifest, a changed comment would change the object: it
would restart the servers or replace a benchmark's ConfigMap.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PACKAGE: Final = "pod_scripts"
"""Package name of the benchmark's programs in a pod."""

_PYTHON: Final = re.compile(
    r"""
      (?P<docstring>^(?P<indent>[ ]*)(?P<quotes>\"{3}|'{3})(?:\\.|(?!(?P=quotes)).)*(?P=quotes)[ ]*\n)
    | (?P<string>(?P<open>\"{3}|'{3}|["'])(?:\\.|(?!(?P=open)).)*(?P=open))
    | (?P<comment>[ ]*\#[^\n]*)
    | (?P<blank>(?<=\n)[ ]*\n)
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_OWN_IMPORT: Final = re.compile(r"^from workloads\.[\w.]+ import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_WORDLESS: Final = re.compile(r"(?:[ ]*(?:#[^\n]*)?\n)*(?P<indent>[ ]*)")


def benchmark_programs() -> dict[str, str]:
    """The benchmark's package: code of each file of benchmark/pods, by file name."""
    files = sorted((FOLDER / "benchmark" / "pods").glob("*.py"))
    return {file.name: python_program(f"benchmark/pods/{file.name}") for file in files}


def package_of(module: str) -> dict[str, str]:
    """The code of a module and of every module of this repository that it imports, by path. Packages need no file of their own."""
    return {path: code_of((FOLDER.parent / path).read_text(encoding="utf-8")) for path in sorted(_imported(module))}


@cache
def _imported(module: str) -> frozenset[str]:
    """Paths of the module and of what it imports."""
    found, open_ = set[str](), [module]
    while open_:
        here = open_.pop()
        path = here.replace(".", "/") + ".py"
        if path in found or not (FOLDER.parent / path).is_file():
            continue
        found.add(path)
        for node in ast.walk(ast.parse((FOLDER.parent / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                above = here.split(".")[: -node.level] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                open_ += [source, *(f"{source}.{name.name}" for name in node.names)]
            elif isinstance(node, ast.Import):
                open_ += [name.name for name in node.names]
    return frozenset(found)


def joined_program(*paths: str) -> str:
    """The code of programs that import one another, each after what it imports, as one program."""
    code = "".join(python_program(path) for path in paths)
    first, future, rest = code.partition("from __future__ import annotations\n")
    return first + future + _OWN_IMPORT.sub("", rest.replace(future, ""))


def named_by_content(prefix: str, data: Mapping[str, str]) -> str:
    """Name of the immutable ConfigMap with these programs."""
    return f"{prefix}-{hashlib.sha256(''.join(data.values()).encode()).hexdigest()[:8]}"


def python_program(path: str) -> str:
    """The code of a program, e.g. `python_program("server/with_api_key.py")`."""
    return code_of((FOLDER / path).read_text(encoding="utf-8"))


@cache
def code_of(text: str) -> str:
    """Python source without docstrings, comments and blank lines.

    `ast.unparse` is not used: its output differs between Python versions, and a commit must give the same manifest everywhere.
    """
    without = _PYTHON.sub(_kept, text)
    # A comment on its own line leaves an empty line.
    return _PYTHON.sub(lambda match: "" if match["blank"] else match[0], without).lstrip("\n")


def _kept(match: re.Match[str]) -> str:
    if match["string"]:
        return match["string"]
    if not match["docstring"]:
        return ""
    indent, rest = match["indent"], _WORDLESS.match(match.string, match.end())
    alone = rest is not None and len(rest["indent"]) < len(indent)
    is_body = match.string[: match.start()].rstrip().endswith(":")
    return f"{indent}pass\n" if alone and is_body else ""
