"""No text is accepted by a pattern that ends in `$`, which also matches before a trailing newline: `fullmatch` says what is meant."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("settings", "infra", "workloads", "policy", "facts", "fleet")


def _ends_in_dollar(call: ast.Call) -> bool:
    pattern = call.args[0] if call.args else None
    parts: list[ast.expr | None] = [*pattern.values] if isinstance(pattern, ast.JoinedStr) else [pattern]
    last = parts[-1] if parts else None
    flags = " ".join(ast.unparse(one) for one in (*call.args[1:], *(one.value for one in call.keywords)))
    text = last.value if isinstance(last, ast.Constant) else ""
    return isinstance(text, str) and text.endswith("$") and not text.endswith(r"\$") and "MULTILINE" not in flags


def _matched(path: Path) -> list[str]:
    """Calls of `match` and `search` with a pattern that ends in `$`, by the pattern or by the name it was compiled to."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    compiled = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        if ast.unparse(node.value.func) == "re.compile" and _ends_in_dollar(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    return [
        f"{path}:{call.lineno}"
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "match"
        if (ast.unparse(call.func.value) == "re" and _ends_in_dollar(call)) or ast.unparse(call.func.value) in compiled
    ]


def test_a_whole_text_is_matched_with_fullmatch() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [
        ROOT / line
        for line in tracked.splitlines()
        if line.startswith(FOLDERS) and "match" in (ROOT / line).read_text()
    ]
    assert len(paths) > 50
    assert [found for path in paths for found in _matched(path)] == []
