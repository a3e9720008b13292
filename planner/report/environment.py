"""The template environment of every page of this project: escaped, strict, and with the one filter that they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def environment(*folders: Path) -> jinja2.Environment:
    """An environment that looks for templates in these folders, in this order. A name that is not there is an error."""
    import jinja2

    from planner.report.code_text import with_code

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["with_code"] = with_code
    return made
