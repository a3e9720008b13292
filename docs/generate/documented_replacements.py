"""Writes fleet/preview/compare/data/replacement_documented.yaml: what the installed Google package says about its own properties.

    python docs/generate/documented_replacements.py

Reads the docstrings of the `...Args` classes of every Google type in fleet/preview/compare/data/replacement.yaml, with the package's
version, and keeps the properties whose text says that a change makes a new resource. Run it after an upgrade of
pulumi-gcp and read the diff; a test runs it and compares.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

DATA = Path(__file__).parents[2] / "fleet" / "preview" / "compare" / "data"
OUTPUT = DATA / "replacement_documented.yaml"
_SAYS_SO = re.compile(
    r"forces? (?:a )?(?:new|recreation)|must be recreated|can ?not be changed|can't be changed|may not be changed"
    r"|is immutable|set at resource creation time|set only at resource creation",
    re.IGNORECASE,
)


def main() -> None:
    """Write the file."""
    OUTPUT.write_text(text(), encoding="utf-8")


def text() -> str:
    """What the file should hold."""
    version = importlib.metadata.version("pulumi-gcp")
    types = yaml.safe_load((DATA / "replacement.yaml").read_text(encoding="utf-8"))["google"]["types"]
    found = {type_: names for type_ in sorted(types) if (names := documented(type_))}
    head = (
        "# Written by docs/generate/documented_replacements.py; do not edit. Properties whose documentation in the installed\n"
        "# package says that changing them makes a new resource.\n"
    )
    return head + yaml.dump({"source": f"pulumi-gcp {version}", "types": found}, Dumper=_Indented, sort_keys=True)


class _Indented(yaml.SafeDumper):
    """Indents lists below their key, as the rest of the repository does."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's name
        """Never indentless."""
        super().increase_indent(flow, False)


def documented(type_: str) -> list[str]:
    """Properties of the type whose documentation says that a change of them makes a new resource."""
    return sorted(name for name, doc in properties(type_).items() if _SAYS_SO.search(" ".join(doc.split())))


@functools.cache
def properties(type_: str) -> dict[str, str]:
    """Every input property of a Google type, by its name on the wire, with its documentation."""
    class_name = type_.rpartition(":")[2]
    for node in ast.walk(ast.parse(_module_of(type_).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == f"{class_name}Args":
            return dict(_getters(node))
    raise LookupError(f"pulumi_gcp has no arguments class for {type_}")


def _module_of(type_: str) -> Path:
    spec = importlib.util.find_spec("pulumi_gcp")
    if spec is None or spec.origin is None:
        raise LookupError("pulumi_gcp is not installed")
    folder, _, module = type_.split(":")[1].partition("/")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", module).lower()
    return Path(spec.origin).parent / folder / f"{snake.replace('i_am', 'iam')}.py"


def _getters(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for one in node.body:
        if not isinstance(one, ast.FunctionDef):
            continue
        for decorator in one.decorator_list:
            if ast.unparse(decorator).endswith("property"):
                yield _wire_name(one), ast.get_docstring(one) or ""


def _wire_name(getter: ast.FunctionDef) -> str:
    for decorator in getter.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pulumi.getter":
            for keyword in decorator.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    return getter.name


if __name__ == "__main__":
    main()
