"""Typer commands that start fast: our options are converted without pydantic.

Measured: typer 0.29 converts every option through a pydantic TypeAdapter, which takes 80 ms to load before a completion
or a subcommand's help can be answered. Our options are words, numbers, folders and switches, so each is converted here in a
line, with typer's own functions where it has them. Uses names that typer keeps to itself; its version is pinned, and
tests/cli/test_start_up.py fails should they move.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from typer._click.core import Context, Parameter
from typer._click.exceptions import BadParameter
from typer._coercion import RuntimeParam
from typer._param_types import coerce_cli_path
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


@dataclass(frozen=True)
class _Plain(RuntimeParam):
    """Converts what one option was given."""

    choices: tuple[str, ...] | None

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.annotation is Path:
            if not value:
                # Path("") is the folder that the user is in: a variable that a script forgot would write there.
                raise BadParameter("'' names no file and no folder.", ctx=ctx, param=param)
            return coerce_cli_path(Path(value), self.parameter_info, path_type=Path, param=param, ctx=ctx)
        if self.choices is not None and value not in self.choices:
            raise BadParameter(f"{value!r} is not one of {', '.join(self.choices)}.", ctx=ctx, param=param)
        if self.annotation in (int, float):
            return self._number(value, param, ctx)
        return value

    def _number(self, value: Any, param: Any, ctx: Any) -> int | float:
        try:
            number: int | float = self.annotation(value)
        except ValueError:
            kind = "a whole number" if self.annotation is int else "a number"
            raise BadParameter(f"{value!r} is not {kind}.", ctx=ctx, param=param) from None
        low, high = self.parameter_info.min, self.parameter_info.max
        if not isfinite(number) or (low is not None and number < low) or (high is not None and number > high):
            bounds = [f"at least {low:g}"] if low is not None else []
            bounds += [f"at most {high:g}"] if high is not None else []
            raise BadParameter(
                f"{value} is out of range: {' and '.join(bounds) or 'a finite number'}.", ctx=ctx, param=param
            )
        return number


def _made_plain(params: list[Parameter]) -> list[Parameter]:
    for param in params:
        if isinstance(param, TyperOption | TyperArgument):
            described = param.type_descriptor
            param._runtime_param = _Plain(described.parameter_info, described.annotation, described.choices)
    return params


class QuickCommand(TyperCommand):
    """A command whose options are converted without pydantic. Its options are `str`, `bool`, `int`, `float`, `Path` or a `Literal`."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The command's own options and `--help`."""
        return _made_plain(super().get_params(ctx))


class QuickGroup(TyperGroup):
    """A group of such commands."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The group's own options, `--help` and those for completion."""
        return _made_plain(super().get_params(ctx))
