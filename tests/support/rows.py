"""`pytest.mark.parametrize` for many small cases of one function: they run as one test, and a failure names its row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_row(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Every row is tried; those that fail are told together. Fixtures are shared by all rows."""
    keys = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    table = list(cases)
    assert table, "no rows"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def each(**others: Any) -> None:
            failed: list[Exception] = []
            for case in table:
                given = dict(zip(keys, case if len(keys) > 1 else (case,), strict=True))
                try:
                    test(**given, **others)
                except Exception as error:
                    error.add_note(f"row: {given}")
                    failed.append(error)
                except pytest.fail.Exception as error:  # also of `pytest.raises`; not an Exception
                    failed.append(AssertionError(f"{error}\nrow: {given}"))
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows", failed)

        signature = inspect.signature(test)
        each.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[one for name, one in signature.parameters.items() if name not in keys]
        )
        each.__name__, each.__doc__, each.__module__ = test.__name__, test.__doc__, test.__module__
        return each

    return decorate
