"""All that this process prints, without secrets and what a terminal would obey: values come from files and servers of others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TextIO

from facts.secrets_in_text import without_forms

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and those that turn the direction of text around."""


def printable(text: str) -> str:
    """The text with such characters as escapes, in the form that JSON has for them, too, and `[secret]` for what looks like one."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", without_forms(text))


class Printer:
    """Standard output or error, cleaned. `stream` is the one beneath, for rich, whose colors are escapes."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, cleaned."""
        return self.stream.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def beneath(stream: TextIO) -> TextIO:
    """The stream for whoever has cleaned the text and adds escapes of its own."""
    return stream.stream if isinstance(stream, Printer) else stream
