"""Sources of the documentation site: every page at its own path, with links that work outside a checkout.

python -m docs.generate.site DIRECTORY [REPOSITORY]

Links to pages and pictures stay relative. Links to source files and folders lead to REPOSITORY, for example https://github.com/ORG/vllm-fleet,
and are plain text without it. Links to missing files stay, so that the site's strict build fails on them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
NOT_PAGES: Final = (".github/", "tests/", "Pulumi.README.md", "AGENTS.md")
"""Markdown that is not for the site: forms, goldens, Pulumi's own page, instructions for coding agents."""
PICTURES: Final = (".png", ".svg")
_LINK: Final = re.compile(r"\[([^][]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
_CODE_WITH_PIPE: Final = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
"""Code in a table on GitHub: it needs `\\|` for a pipe, where the site's Markdown shows the backslash."""

_LIST_BELOW_TEXT: Final = re.compile(r"^((?![-*\s|>#]|\d+\. ).+\n)(?=- |1\. )", re.MULTILINE)
"""GitHub begins a list directly below a paragraph; the site's Markdown needs an empty line."""
_BLOCK: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def for_the_site(text: str, page: str, files: frozenset[str], staged: frozenset[str], repository: str) -> str:
    """A page's text as the site needs it. `files` are the repository's, `staged` those that the site has."""
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}

    def link_for_site(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        path = normpath(str(PurePosixPath(page).parent / target))
        if path in folders and f"{path}/README.md" in staged:
            return f"[{label}]({relpath(f'{path}/README.md', PurePosixPath(page).parent)}{anchor})"
        if path in staged or path not in files | folders:
            return link[0]
        return f"[{label}]({repository}/{'blob' if path in files else 'tree'}/main/{path})" if repository else label

    def prose_for_site(prose: str) -> str:
        prose = _CODE_WITH_PIPE.sub(lambda code: code[0].replace(r"\|", "|"), prose)
        return _LINK.sub(link_for_site, _LIST_BELOW_TEXT.sub("\\1\n", prose))

    parts = _BLOCK.split(text)
    return "".join(part if number % 2 else prose_for_site(part) for number, part in enumerate(parts))


def write(directory: Path, repository: str = "") -> None:
    """Write the sources of the site into an empty or missing directory."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = frozenset(name for name in listed.stdout.rstrip("\0").split("\0") if (ROOT / name).is_file())
    pages = {name for name in files if name.endswith(".md") and not name.startswith(NOT_PAGES)}
    pictures = {name for name in files if name.startswith("docs/img/") and name.endswith(PICTURES)}
    staged = frozenset(pages | pictures)
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        (directory / page).parent.mkdir(parents=True, exist_ok=True)
        (directory / page).write_text(for_the_site(text, page, files, staged, repository), encoding="utf-8")
    for picture in pictures:
        (directory / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / picture, directory / picture)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:])
