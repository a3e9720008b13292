"""docs/command-line.md and docs/preview.md say what the command does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
import typer.main

from fleet.cli.app import app_with
from tests.fleet.cli.command import ROOT, fleet

GUIDE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
PREVIEW = (ROOT / "docs" / "preview.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, list[str]]]:
    """The words and options of every command that is shown."""
    waiting = [("fleet", typer.main.get_command(app_with()))]
    while waiting:
        words, command = waiting.pop()
        children = getattr(command, "commands", {})
        waiting += [(f"{words} {name}", child) for name, child in children.items() if not child.hidden]
        if not children:
            yield (
                words,
                [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)],
            )


def test_every_command_is_in_the_guide() -> None:
    assert [words for words, _ in commands() if f"`{words}`" not in GUIDE] == []


def test_the_guide_names_no_option_that_does_not_exist() -> None:
    known = {option for _, options in commands() for option in options}
    known |= {"--help", "-h", "--version", "--install-completion", "--show-completion"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", GUIDE)) <= known


@pytest.mark.parametrize(("command", "guide"), [("verify", "verify"), ("bench run", "run-a-benchmark")])
def test_the_guide_of_a_command_names_every_option_of_it(command: str, guide: str) -> None:
    text = (ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    options = next(options for words, options in commands() if words == f"fleet {command}")
    # Those of every command are in docs/command-line.md.
    long = {option for option in options if option.startswith("--")} - {"--root", "--help"}
    assert long <= set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text))


@pytest.mark.slow
def test_the_keys_of_the_document_are_those_described() -> None:
    document = json.loads(fleet("preview", "--stack", "dev", "--no-policy", "--format", "json").stdout)
    rows = PREVIEW[PREVIEW.index("| key | contents |") :].partition("\n\n")[0].splitlines()[2:]
    described = {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert described == set(document)
    plan = next(row for row in rows if row.startswith("| `plan`"))
    assert set(re.findall(r"`(\w+)`", plan.split("|")[2])) == set(document["plan"])


@pytest.mark.slow
def test_the_example_prints_the_price() -> None:
    command = next(line for line in PREVIEW.splitlines() if line.startswith("fleet preview") and "python3 -c" in line)
    text = fleet("preview", "--stack", "spot", "--format", "json").stdout
    done = subprocess.run(
        command.partition("| ")[2], shell=True, input=text, capture_output=True, text=True, check=True
    )
    price, at_least = done.stdout.split()
    assert float(price) > 408
    assert at_least == "True"
