"""Faster imports of the provider SDKs for the offline preview. `pulumi up` does not use this.

The SDKs are some 40 MB of generated modules, of which a program touches a few percent. What is done, and what each part
takes off the processor time of `fleet preview --stack spot --no-policy` (measured 2026-11-22, pairs of runs):

- 24 %: a package such as `pulumi_gcp.compute` loads the modules whose classes are named, not all 286;
- 30 % of the rest: in `_inputs.py` and `outputs.py` a class is made when it is first named, by running its own piece of
  the module's bytecode, cut where one statement ends and the next begins: decorators, bases and bodies are the module's own;
- 13 %: no garbage collection, which would walk all classes made so far.

Only the versions in `KNOWN` are loaded so, and of those only modules that look as expected; everything else is loaded the
ordinary way: slower, never different. FLEET_PLAIN_SDK=1 loads everything the ordinary way.
Why, and what else was tried: docs/decisions/10-preview.md.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import importlib.machinery
import opcode
import os
import re
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

SWITCH: Final = "FLEET_PLAIN_SDK"
"""Environment variable that turns this off."""
KNOWN: Final = {"pulumi": "3.272.0", "pulumi_gcp": "10.2.0", "pulumi_kubernetes": "4.34.2"}
"""The packages and versions that this was tried on: as pinned in requirements.txt."""
_STAR_IMPORT: Final = re.compile(r"from \.(\w+) import \*")
_OTHER_LINES: Final = re.compile(
    r"#.*|import builtins as _builtins|import typing|from \.+ import _utilities|from \. import outputs|"
)


def install() -> None:
    """Load the SDKs so from now on. Call before anything imports one; a second call does nothing."""
    gc.disable()
    if not os.environ.get(SWITCH) and not any(isinstance(finder, _LazyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LazyFinder())


@functools.cache
def _is_known(sdk: str) -> bool:
    return all(metadata.version(name) == KNOWN[name] for name in ("pulumi", sdk))


def _resolve_inherited_annotations() -> None:
    """Resolve the annotations of a class that a program derives from an SDK's.

    The SDK resolves them in the names of all modules on the way to `object`, of which the program's own comes last and
    brings ordinary builtins.
    """
    from pulumi import _types

    original = _types._globals_for_cls
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def globals_for_cls(cls: type) -> dict[str, Any] | None:
        names: dict[str, Any] | None = original(cls)
        modules = (sys.modules.get(base.__module__) for base in cls.__mro__)
        views = (module.__dict__.get("__builtins__") for module in modules if module)
        nearest = next((view for view in views if isinstance(view, _Builtins)), None)
        return names | {"__builtins__": nearest} if names and nearest is not None else names

    _types._globals_for_cls = globals_for_cls


class _LazyFinder:
    """Finds the SDKs' modules where Python would, and gives them loaders that do less."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec with another loader; None for whatever is not an SDK's."""
        sdk, _, rest = fullname.partition(".")
        if not rest or sdk not in KNOWN or sdk == "pulumi" or not _is_known(sdk):
            return None
        _resolve_inherited_annotations()
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return spec
        loader: type[importlib.machinery.SourceFileLoader]
        if spec.submodule_search_locations is not None:
            loader = _PackageLoader
        elif "." not in rest:
            return spec  # a module of the SDK's root package, which is loaded whole
        elif rest.endswith(("._inputs", ".outputs")):
            loader = _DefinitionsLoader
        else:
            loader = _ResourceModuleLoader
        spec.loader = loader(fullname, spec.loader.path)
        return spec


class _Builtins(dict[str, Any]):
    """Python's builtins, with a fallback: a class is created when its name is first missing.

    Annotations such as `pulumi.Input['ClusterArgs']` are resolved by `eval` in a module's namespace. That must be a
    plain dict, but its `__builtins__` need not be.
    """

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__(builtins.__dict__)
        self._find = find

    def __missing__(self, name: str) -> Any:
        try:
            return self._find(name)
        except AttributeError:
            raise KeyError(name) from None


class _DefinitionsLoader(importlib.machinery.SourceFileLoader):
    """Loads a module of nothing but classes, each when it is first named."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the imports at the top and keep the rest as pieces."""
        code = self.get_code(module.__name__)
        parts = cut(code) if code is not None else None
        if parts is None:
            super().exec_module(module)
            return
        names = module.__dict__
        definitions = Definitions(names, parts)
        names["__builtins__"] = _Builtins(definitions.get)
        names["__definitions__"] = definitions
        exec(parts.header, names)  # noqa: S102 - the module's own code, as the import system would run it
        # `import *` takes what is named here: nothing but classes that would be hidden behind a builtin of that name.
        names["__all__"] = [name for name in parts.pieces if hasattr(builtins, name)]
        names["__getattr__"] = definitions.get


class _ResourceModuleLoader(importlib.machinery.SourceFileLoader):
    """Loads a module of resources, whose `from ._inputs import *` brings nothing until it is needed."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the whole module; only its view of the builtins differs."""
        inputs = module.__name__.rpartition(".")[0] + "._inputs"

        def find(name: str) -> Any:
            loaded = sys.modules.get(inputs)
            definitions = loaded.__dict__.get("__definitions__") if loaded else None
            if definitions is None:
                raise AttributeError(name)  # there is none, or `import *` has copied its names
            return definitions.get(name)

        module.__dict__["__builtins__"] = _Builtins(find)
        super().exec_module(module)


class _PackageLoader(importlib.machinery.SourceFileLoader):
    """Loads a package that only collects its modules' names, and imports a module when one of its names is asked for."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Note the modules that would be imported; run the package whole if it does anything else."""
        lines = self.get_data(self.path).decode().splitlines()
        modules = [match[1] for line in lines if (match := _STAR_IMPORT.fullmatch(line))]
        if not modules or not all(_STAR_IMPORT.fullmatch(line) or _OTHER_LINES.fullmatch(line) for line in lines):
            super().exec_module(module)
            return
        by_squeezed: dict[str, list[str]] = {}
        for name in modules:
            by_squeezed.setdefault(_squeezed(name), []).append(name)
        module.__dict__["__star_imports__"] = frozenset(modules)
        module.__dict__["__by_squeezed__"] = by_squeezed
        module.__class__ = _LazyPackage

    def exec_whole(self, module: types.ModuleType) -> None:
        """Give up being lazy: do what the package itself says."""
        module.__class__ = types.ModuleType
        super().exec_module(module)


class _LazyPackage(types.ModuleType):
    """A package whose names are found by the generator's own naming and checked against each module's `__all__`."""

    __star_imports__: frozenset[str]
    __by_squeezed__: dict[str, list[str]]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for squeezed in _exporters_of(name):
            for candidate in self.__by_squeezed__.get(squeezed, ()):
                importlib.import_module(f"{self.__name__}.{candidate}")
                if name in self.__dict__:
                    return self.__dict__[name]
        if (module := self._submodule(name)) is not None:
            return module
        inputs = self._submodule("_inputs")
        definitions = inputs.__dict__.get("__definitions__") if inputs else None
        if definitions is not None and name in definitions:
            return definitions.get(name)
        loader = self.__loader__
        if isinstance(loader, _PackageLoader):
            loader.exec_whole(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Do for a submodule that has just been loaded what `import *` would: a class hides a module of its name."""
        super().__setattr__(name, value)
        if isinstance(value, types.ModuleType) and name in self.__star_imports__:
            self.__dict__.update({export: getattr(value, export) for export in value.__all__})

    def _submodule(self, name: str) -> types.ModuleType | None:
        fullname = f"{self.__name__}.{name}"
        try:
            return importlib.import_module(fullname)
        except ModuleNotFoundError as error:
            if error.name != fullname:
                raise
            return None


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def _exporters_of(name: str) -> list[str]:
    """Squeezed names of the modules that may export `name`, likeliest first: a class, its arguments, a function."""
    squeezed = _squeezed(name)
    likely = [squeezed]
    for suffix in ("initargs", "args", "result", "output"):
        if squeezed.endswith(suffix):
            likely.append(squeezed.removesuffix(suffix).removeprefix("awaitable"))
    return likely


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
        """The class, created on first use. Raises AttributeError like a module."""
        if name not in self._parts.pieces:
            raise AttributeError(f"module {self._namespace['__name__']!r} has no attribute {name!r}")
        with self._lock:
            if name not in self._namespace:
                exec(self._parts.runnable(name), self._namespace)  # noqa: S102 - a piece of the module's own code
        return self._namespace[name]
