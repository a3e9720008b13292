"""Makes the SDKs cheap to import for the offline preview. `pulumi up` never runs any of this.

The provider SDKs are some 40 MB of generated modules, of which a program touches a few percent. Three levers, none of
which changes what a program sees (docs/decisions/0003-lazy-sdk-imports.md has the measurements):

- no garbage collection while they load: every full collection walks all classes made so far;
- a package such as `pulumi_gcp.compute` loads the modules whose classes are asked for, not all 286;
- in `_inputs.py` and `outputs.py` a class is made when it is first named, by running its own piece of the module's
  bytecode (see `preview.class_by_class`).

Two small ones go with them: the parts of `pulumi` that no program of ours uses wait until somebody does, and the SDK
notes where a resource was made without reading the source files on the way.

Whatever does not look like the generated code these levers were made for is loaded the ordinary way.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import importlib.machinery
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from preview.class_by_class import Definitions, cut

_SDKS: Final = ("pulumi_gcp", "pulumi_kubernetes")
_UNUSED: Final = ("pulumi.automation", "pulumi.dynamic")
"""Parts of the core SDK that `import pulumi` loads and a program like ours never touches."""
_STAR_IMPORT: Final = re.compile(r"from \.(\w+) import \*")
_OTHER_LINES: Final = re.compile(
    r"#.*|import builtins as _builtins|import typing|from \.+ import _utilities|from \. import outputs|"
)


def install() -> None:
    """Pull the levers. Call before anything imports an SDK; a second call does nothing."""
    gc.disable()
    if not any(isinstance(finder, _LazyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LazyFinder())


def adapt_core() -> None:
    """Teach the core SDK about the levers. Call after `pulumi` has been imported; does nothing unless they are pulled."""
    if any(isinstance(finder, _LazyFinder) for finder in sys.meta_path):
        _skip_source_lines()
        _resolve_inherited_annotations()


def _skip_source_lines() -> None:
    """Let the SDK look up files and line numbers of a resource's maker, but not the text of every line on the stack.

    It sends positions alone, and the text comes from reading all source files on the way, some of 400 kB. A file's URI is
    made once, not for every frame of every resource.
    """
    from pulumi.runtime import resource
    from pulumi.runtime.proto import source_pb2

    def extract_stack() -> list[_Frame]:
        stack = traceback.walk_stack(sys._getframe(1))
        frames = [_Frame(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in stack]
        frames.reverse()
        return frames

    def position(frame: _Frame) -> source_pb2.SourcePosition | None:
        uri = _file_uri(frame.filename)
        return source_pb2.SourcePosition(uri=uri, line=frame.lineno) if uri and frame.lineno else None

    lineless = types.ModuleType("traceback")
    lineless.__dict__.update(traceback.__dict__, extract_stack=extract_stack)
    resource.traceback = lineless  # type: ignore[attr-defined]
    resource._get_source_position_for_frame = position  # type: ignore[assignment]


class _Frame(NamedTuple):
    """What the SDK reads of a `traceback.FrameSummary`."""

    filename: str
    lineno: int | None
    name: str


@functools.cache
def _file_uri(file: str) -> str:
    """Empty for code that is in no file, such as `<string>`."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else ""


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


def exit_fast(code: int) -> NoReturn:
    """End the process without taking it apart: freeing the SDKs' classes one by one costs a fifth of a preview.

    For a command line only, as its last act: files must be closed before. Child processes are ended here.
    """
    if "preview.children" in sys.modules:
        sys.modules["preview.children"].end_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1  # whoever read the output has gone
    os._exit(code)


class _LazyFinder:
    """Finds the SDKs' modules where Python would, and gives them loaders that do less."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec with another loader; None for whatever is not an SDK's."""
        sdk, _, rest = fullname.partition(".")
        if (sdk not in _SDKS or not rest) and fullname not in _UNUSED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return spec
        loader: type[importlib.machinery.SourceFileLoader]
        if fullname in _UNUSED:
            loader = _DeferredLoader
        elif spec.submodule_search_locations is not None:
            loader = _PackageLoader
        elif "." not in rest:
            return spec  # a module of the SDK's root package, which is loaded whole
        elif rest.endswith(("._inputs", ".outputs")):
            loader = _DefinitionsLoader
        else:
            loader = _ResourceModuleLoader
        spec.loader = loader(fullname, spec.loader.path)
        return spec


class _DeferredLoader(importlib.machinery.SourceFileLoader):
    """Loads a module when something is first asked of it."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing yet."""
        module.__class__ = _DeferredModule

    def exec_now(self, module: types.ModuleType) -> None:
        """Run the module as if it had just been imported."""
        module.__class__ = types.ModuleType
        super().exec_module(module)


class _DeferredModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        loader = self.__loader__
        if not isinstance(loader, _DeferredLoader):
            raise AttributeError(name)
        loader.exec_now(self)
        return getattr(self, name)


class _Builtins(dict[str, Any]):
    """Python's builtins, with a last resort: a class that nobody has made yet is made when its name is missed.

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
