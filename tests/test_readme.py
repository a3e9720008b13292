"""What README, guides, comments and workflows name is there: files, modules, make targets, commands, figures."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import typer

from facts import machines
from facts.names import stack_names
from fleet.cli.app import app_with
from fleet.preview.offline import open_stack
from settings.derived.figures import figures
from tests.fleet.cli.command import fleet
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = ROOT / "docs" / "decisions"

FILE = r"[\w./*-]*\w\.(?:py|md|ya?ml|toml|json|sh|jinja|template|txt)\b"


def _texts() -> Iterator[tuple[Path, str]]:
    """Every committed text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if path.is_file() and path.suffix not in {".gz", ".png"}:
            yield path, path.read_text(encoding="utf-8")


TEXTS = dict(_texts())
ROOMS = {path.relative_to(ROOT).parts[0] for path in TEXTS} - {path.name for path in TEXTS if path.parent == ROOT}
PAGES = {page: text for page, text in TEXTS.items() if page.suffix == ".md"}


def _exists(name: str, page: Path) -> bool:
    """From the root, from the page or in the wheel, whose folder is the repository's root; capitals stand for any name."""
    name = name.removeprefix("vllm_fleet/repository/")  # where the wheel has it
    pattern = re.sub(r"[A-Z]{3,}", "*", name)
    return any((folder / name).exists() or any(folder.glob(pattern)) for folder in (ROOT, page.parent))


def test_every_file_that_is_named_exists() -> None:
    room = re.compile(rf"(?<![\w./{{}}$-])(?:{'|'.join(map(re.escape, sorted(ROOMS)))})/{FILE}")
    missing = [
        (page.relative_to(ROOT).as_posix(), name)
        for page, text in TEXTS.items()
        if not page.is_relative_to(ROOT / "tests")  # whose samples have files of their own
        for name in room.findall(text)
        if not _exists(name, page)
    ]
    for page, text in PAGES.items():
        if page.name == "from-the-article.md":  # its first column names the article's files
            text = re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE)
        named = re.findall(r"`((?:[\w.-]+/)+[\w.*-]+\.(?:py|sh|md|yaml))`", text)
        missing += [(page.relative_to(ROOT).as_posix(), name) for name in named if not _exists(name, page)]
    assert missing == []


@each_row("page", sorted(PAGES))
def test_every_link_leads_to_a_file_and_to_the_decision_of_that_number(page: Path) -> None:
    for label, link in re.findall(r"\[([^]]*)\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / link).exists(), link
        if (record := re.search(r"decisions/(\d\d)-|^(\d\d)-", link)) and (number := re.search(r"\d+$", label)):
            assert int(number[0]) == int(record[1] or record[2]), (label, link)


def test_the_readme_puts_fleet_on_the_path_before_it_is_typed() -> None:
    typed = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
    first = next(number for number, line in enumerate(typed) if line.startswith("fleet "))
    assert any(line.startswith("source .venv/bin/activate") for line in typed[:first])


def test_every_decision_has_a_number_and_the_index_has_every_decision() -> None:
    pages = [page for page in sorted(RECORDS.glob("*.md")) if page.name != "README.md"]
    assert len({page.name[:2] for page in pages}) == len(pages)
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith(f"# {int(page.name[:2])}. "), page
    table = (RECORDS / "README.md").read_text(encoding="utf-8")
    index = re.findall(r"^\| \[\d+\]\((\S+)\) \| .+ \| (.+) \|$", table, re.MULTILINE)
    assert index == [(page.name, page.read_text(encoding="utf-8").split("\n\n")[1]) for page in pages]


def test_every_make_target_and_module_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page, text in TEXTS.items():
        named = set(re.findall(r"`make ([a-z-]+)", text))
        if page.suffix != ".py":
            named |= set(re.findall(r"^(?:step )?make (?:--\S+ )?([a-z-]+)(?= *(?:#|$|[A-Z]+=))", text, re.MULTILINE))
        assert named <= targets, page
        for module in re.findall(rf"python -m ((?:{'|'.join(map(re.escape, sorted(ROOMS)))})(?:\.\w+)*)", text):
            assert importlib.util.find_spec(module), (page, module)


def test_every_fleet_command_that_is_named_exists() -> None:
    commands = typer.main.get_command(app_with()).commands  # type: ignore[attr-defined]
    used = set()
    for page, text in PAGES.items():
        for group, name in re.findall(r"(?:`|^)fleet ([a-z]+)(?: ([a-z][a-z-]*))?", text, re.MULTILINE):
            assert group in commands, (page, group)
            if members := getattr(commands[group], "commands", None):
                assert not name or name in members, (page, group, name)
            used.add((group, name) if members and name else (group,))
    for command in used:
        assert fleet(*command, "--help").returncode == 0


@each_row("stack", stack_names(ROOT))
def test_the_table_of_stacks_says_what_the_preview_says(stack: str) -> None:
    row = next(line for line in README.splitlines() if line.startswith(f"| [{stack}]"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    settings = open_stack(ROOT, stack).settings
    numbers = figures(settings)
    scaled = numbers.bill.scaled
    bills = [numbers.bill] if scaled is None else [scaled.smallest, numbers.bill]
    assert cells[2] == " to ".join(f"{bill.nodes.quantity:g}" for bill in bills)
    hourly = [bill.usd_per_hour_known for bill in bills]
    assert cells[4] == " to ".join(f"${usd:,.0f}" if usd >= 10 else f"${usd:,.2f}" for usd in hourly)
    published, what = numbers.total_tokens_per_s, "profile" if settings.machine.type == machines.DEFAULT else "machine"
    assert cells[5] == (f"{published:,} tok/s" if published else f"none: different {what}")


def test_make_help_has_its_texts_in_one_column() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    rows = re.findall(r"^( +make \S+ +)\S", told, re.MULTILINE)
    assert len({*map(len, rows)}) == 1
    assert len(rows) == len(told.splitlines())
