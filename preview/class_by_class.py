"""Cuts the bytecode of a module of classes into one piece per class, so that each can be made on its own.

A generated module such as `pulumi_gcp/compute/_inputs.py` is imports, `__all__` and then two thousand class statements.
Reading its compiled code takes 12 ms; running it takes twenty times as long. The pieces are what Python compiled, cut
where one statement ends and the next begins: decorators, bases and bodies are exactly the module's own.
"""

from __future__ import annotations

import opcode
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_EXTENDED_ARG: Final = opcode.opmap["EXTENDED_ARG"]
_RESUME: Final = opcode.opmap["RESUME"]
_STORE_NAME: Final = opcode.opmap["STORE_NAME"]
_BUILD_CLASS: Final = opcode.opmap["LOAD_BUILD_CLASS"]


def _opcodes(*names: str) -> frozenset[int]:
    """Numbers of those of the instructions that this version of Python has."""
    return frozenset(opcode.opmap[name] for name in names if name in opcode.opmap)


_OF_A_CLASS: Final = _opcodes(
    *(
        "CACHE",
        "EXTENDED_ARG",
        "PUSH_NULL",
        "LOAD_BUILD_CLASS",
        "LOAD_CONST",
        "MAKE_FUNCTION",
        "SET_FUNCTION_ATTRIBUTE",
    ),
    *("LOAD_NAME", "LOAD_ATTR", "PRECALL", "CALL", "KW_NAMES", "CALL_KW", "STORE_NAME"),
)
"""What a class statement with bases, keywords and decorators compiles to; anything else may do something else."""
_OF_THE_END: Final = _opcodes("EXTENDED_ARG", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST")


@dataclass(frozen=True, slots=True)
class Parts:
    """A module in parts."""

    header: types.CodeType
    """Everything up to and including `__all__`."""
    pieces: Mapping[str, bytes]
    """Bytecode of each class statement, by the name it binds."""
    lines: Mapping[str, int]
    """Line at which each class begins."""
    code: types.CodeType
    """The whole, whose constants and names the pieces share."""
    prologue: bytes
    epilogue: bytes

    def runnable(self, name: str) -> types.CodeType:
        """A code object that makes one class and binds its name."""
        body = self.prologue + self.pieces[name] + self.epilogue
        return self.code.replace(
            co_code=body,
            co_firstlineno=self.lines.get(name, self.code.co_firstlineno),
            co_linetable=_one_line(len(body) // 2),
        )


def cut(code: types.CodeType) -> Parts | None:
    """The parts of a module, or None if it is anything but a header and class statements."""
    bytecode = code.co_code
    if code.co_exceptiontable or "__all__" not in code.co_names:
        return None
    stores = list(_stores(bytecode, code.co_names))
    header_end = next((end for name, end in stores if name == "__all__"), None)
    if header_end is None:
        return None
    pieces: dict[str, bytes] = {}
    start = header_end
    for name, end in stores:
        if end <= header_end:
            continue
        piece = bytecode[start:end]
        operations = piece[::2]
        if operations.count(_BUILD_CLASS) != 1 or name in pieces or not _OF_A_CLASS.issuperset(operations):
            return None
        pieces[name] = piece
        start = end
    epilogue = bytecode[start:]
    if not pieces or not _OF_THE_END.issuperset(epilogue[::2]):
        return None
    header = bytecode[:header_end] + epilogue
    return Parts(
        header=code.replace(co_code=header, co_linetable=_one_line(len(header) // 2)),
        pieces=pieces,
        lines={one.co_name: one.co_firstlineno for one in code.co_consts if isinstance(one, types.CodeType)},
        code=code,
        prologue=bytecode[:2] if bytecode[0] == _RESUME else b"",
        epilogue=epilogue,
    )


def _stores(bytecode: bytes, names: tuple[str, ...]) -> list[tuple[str, int]]:
    """Each name the module binds and the offset after it. Instructions are two bytes; caches between them are zero."""
    found = []
    high = 0
    for offset in range(0, len(bytecode), 2):
        operation = bytecode[offset]
        if operation == _EXTENDED_ARG:
            high = (high | bytecode[offset + 1]) << 8
            continue
        if operation == _STORE_NAME:
            found.append((names[high | bytecode[offset + 1]], offset + 2))
        high = 0
    return found


def _one_line(instructions: int) -> bytes:
    """A line table that puts every instruction (two bytes each) on the code's first line.

    It must cover the code exactly: profilers and debuggers make Python copy the table into an array of the code's size,
    unchecked. An entry covers up to eight instructions; code 13 has no columns, the zero after it is "the same line".
    Source: CPython, Objects/locations.md, "location entries".
    """
    entries = bytearray()
    while instructions > 0:
        covered = min(instructions, 8)
        entries += bytes((0x80 | (13 << 3) | (covered - 1), 0))
        instructions -= covered
    return bytes(entries)


class Definitions:
    """The classes of one module, made on demand and once, in the module's own namespace."""

    def __init__(self, namespace: dict[str, Any], parts: Parts) -> None:
        self._namespace = namespace
        self._parts = parts
        self._lock = threading.RLock()

    def __contains__(self, name: object) -> bool:
        return name in self._parts.pieces

    def get(self, name: str) -> Any:
        """The class, made now if nobody asked for it before. Raises AttributeError like a module does."""
        if name not in self._parts.pieces:
            raise AttributeError(f"module {self._namespace['__name__']!r} has no attribute {name!r}")
        with self._lock:
            if name not in self._namespace:
                exec(self._parts.runnable(name), self._namespace)  # noqa: S102 - a piece of the module's own code
        return self._namespace[name]
