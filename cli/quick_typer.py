"""Typer commands that start fast: our options are converted without pydantic.

Measured: typer 0.29 converts every option through a pydantic TypeAdapter, which takes 80 ms to load before a completion
or a subcommand's help can be answered. Our options are words, folders and switches, so each is converted here in a
line, with typer's own functions where it has them. Uses names that typer keeps to itself; its version is pinned, and
tests/cli/test_start_up.py fails should they move.
"""

from __future__ import annotations

from dataclasses import dataclass
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
            return coerce_cli_path(Path(value), self.parameter_info, path_type=Path, param=param, ctx=ctx)
        if self.choices is not None and value not in self.choices:
            raise BadParameter(f"{value!r} is not one of {', '.join(self.choices)}.", ctx=ctx, param=param)
        return value


def _made_plain(params: list[Parameter]) -> list[Parameter]:
    for param in params:
        if isinstance(param, TyperOption | TyperArgument):
            described = param.type_descriptor
            param._runtime_param = _Plain(described.parameter_info, described.annotation, described.choices)
    return params


class QuickCommand(TyperCommand):
    """A command whose options are converted without pydantic. Its options are `str`, `bool`, `Path` or a `Literal`."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The command's own options and `--help`."""
        return _made_plain(super().get_params(ctx))


class QuickGroup(TyperGroup):
    """A group of such commands."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The group's own options, `--help` and those for completion."""
        return _made_plain(super().get_params(ctx))
