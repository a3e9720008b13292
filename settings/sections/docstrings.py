"""Reads the docstrings of a class's fields from its source.

pydantic could keep them (`use_attribute_docstrings`), but would parse the source at every import. Only the schema and error
messages need them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


@cache
def field_docs(model: type) -> dict[str, str]:
    """Docstrings of the fields of a section or of a component's arguments, one line each, by Python name, including its bases'."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base in (BaseModel, object):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                docs[statement.target.id] = " ".join(following.value.value.split())
    return docs
