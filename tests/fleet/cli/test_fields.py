"""Options that are fields of a dataclass: typer sees each, and the command gets the dataclass, filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from fleet.cli.fields import with_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    place: Annotated[str, typer.Argument(metavar="PLACE")]
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many.")] = 2
    share: Annotated[float | None, typer.Option(help="Part of all.")] = None
    whole: Annotated[bool, typer.Option("--whole")] = False


@with_fields
def command(size: Size, name: Annotated[str | None, typer.Option(metavar="NAME")] = None) -> int:
    """Measure."""
    given.append((size, name))
    return 0


given: list[Any] = []
app = typer.Typer(rich_markup_mode=None)
app.command()(command)


def run(*arguments: str) -> tuple[int, Any]:
    given.clear()
    code = CliRunner().invoke(app, arguments).exit_code
    return code, given[0] if given else None


def test_options_arguments_and_defaults_fill_the_dataclass() -> None:
    assert run("there", "-n", "3", "--whole") == (0, (Size(place="there", count=3, whole=True), None))
    assert run("there", "--share", "0.5", "--name", "x") == (0, (Size(place="there", share=0.5), "x"))


@pytest.mark.parametrize("wrong", [(), ("there", "-n", "0"), ("there", "--share", "nan"), ("there", "--share", "-inf")])
def test_a_value_that_is_missing_out_of_range_or_no_number_is_wrong_usage(wrong: tuple[str, ...]) -> None:
    assert run(*wrong) == (2, None)


def test_help_is_that_of_the_fields() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "How many." in shown
    assert "Measure." in shown


def test_the_command_can_be_called_by_the_names_of_the_fields() -> None:
    given.clear()
    assert command(place="here", count=1) == 0
    assert given == [(Size(place="here", count=1), None)]
    with pytest.raises(TypeError):
        command(place="here", size=1)
