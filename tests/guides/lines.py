"""Every `pulumi` command line of the guides, the stack files and the examples, as its page has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_PLACES: Final = (
    "*.md",
    "docs/*.md",
    "docs/examples/*/*",
    "infra/README.md",
    "policy/README.md",
    "Pulumi*.yaml",
    "facts/signals/runbook.md",
    "workloads/README.md",
)
_NO_GUIDES: Final = frozenset({"CHANGELOG.md"})
_COMMAND: Final = re.compile(r"(?:[A-Z][A-Z0-9_]*=\S+ )*pulumi [a-z].*")
_NAMED: Final = re.compile(r"pulumi (stack (export|init|output|ls)|config set|state unprotect|[a-z]+)")
"""A command that prose names, without anything to type after it."""
_COMMENT: Final = re.compile(r"\s+# .*")


def pages() -> dict[str, list[str]]:
    """The command lines of each page that has any, in their order."""
    paths = sorted({path for place in _PLACES for path in ROOT.glob(place) if path.name not in _NO_GUIDES})
    found = {
        str(path.relative_to(ROOT)): list(commands(path.read_text(encoding="utf-8"), of_markdown=path.suffix == ".md"))
        for path in paths
        if path.is_file()
    }
    return {page: lines for page, lines in found.items() if lines}


def commands(text: str, *, of_markdown: bool) -> Iterator[str]:
    """Lines of code blocks that start with `pulumi`, and code spans that say more than a command's name."""
    in_block = False
    for line in text.replace("\\\n", " ").splitlines():
        if of_markdown and line.lstrip().startswith("```"):
            in_block = not in_block
        elif in_block:
            yield from _commands(line.removeprefix("$ "))
        elif of_markdown or "#" in line or "//" in line:
            # In a comment, a command may also stand at the start of the line, with words in a second column.
            bare = [] if of_markdown else re.findall(r"^ *# +((?:\S+ )*\S+)", line)
            for span in [*bare, *re.findall(r"`([^`]+)`", line)]:
                yield from (one for one in _commands(span) if not _NAMED.fullmatch(one))


def stack_files(page: Path) -> dict[str, str]:
    """Whole stack files that a page shows, by the stack of their first line, `# Pulumi.STACK.yaml`."""
    return dict(re.findall(r"```yaml\n# Pulumi\.([\w-]+)\.yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


def _commands(line: str) -> Iterator[str]:
    for part in re.sub(r"\s+", " ", _COMMENT.sub("", line)).strip().split(" && "):
        if _COMMAND.fullmatch(part):
            yield part
