"""Names of vLLM's parsers, in the sections `model` and `server.engine`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from facts import parsers


def _of(kind: parsers.Kind) -> AfterValidator:
    """Validates that some vLLM release has a parser of that name; settings/checks/parsers.py checks the stack's release."""

    def known(name: str) -> str:
        if name not in (names := parsers.of_any_release(kind)):
            raise ValueError(f"one of {', '.join(sorted(names))}")
        return name

    return AfterValidator(known)


ReasoningParser = Annotated[str, _of("reasoning")]
ToolCallParser = Annotated[str, _of("tools")]
