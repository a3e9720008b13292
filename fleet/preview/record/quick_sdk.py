"""Faster imports of the provider SDKs for the offline preview. `pulumi up` does not use this.

The SDKs are some 40 MB of generated modules, of which a program touches a few percent. A package such as `pulumi_gcp.compute`
loads the modules whose classes are named, not all 286; and no garbage collection walks the classes made so far.

Only the versions in `KNOWN` are loaded so, and of those only packages that look as expected; everything else is loaded the
ordinary way: slower, never different. FLEET_PLAIN_SDK=1 loads everything the ordinary way.
What each part gains, and what else was tried: docs/decisions/10-preview.md.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.machinery
import os
import re
import sys
import types
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final

SWITCH: Final = "FLEET_PLAIN_SDK"
"""Environment variable that turns this off."""
KNOWN: Final = {"pulumi_gcp": "10.2.0", "pulumi_kubernetes": "4.34.2"}
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
    return metadata.version(sdk) == KNOWN[sdk]


class _LazyFinder:
    """Finds the SDKs' packages where Python would, and gives them a loader that does less."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec of a package with another loader; None for whatever is not inside an SDK."""
        sdk, _, rest = fullname.partition(".")
        if not rest or sdk not in KNOWN or not _is_known(sdk):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.submodule_search_locations is None:
            return spec
        if type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _PackageLoader(fullname, spec.loader.path)
        return spec


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
        self._submodule("_inputs")  # the arguments' nested classes
        if name in self.__dict__:
            return self.__dict__[name]
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
