"""Where in a stack file a setting stands, so that a finding can point at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StackFileLines:
    """Lines of one stack file."""

    def __init__(self, root: Path, stack: str) -> None:
        self.name = f"Pulumi.{stack}.yaml"
        """Relative to the project's root."""
        self._config: yaml.MappingNode | None = None
        try:
            top = yaml.compose((root / self.name).read_text(encoding="utf-8"), Loader=_LOADER)
        except (OSError, yaml.YAMLError):
            return  # what is wrong with the file is told by whoever reads it; here line 1 has to do
        config = _entry(top, "config")[1]
        self._config = config if isinstance(config, yaml.MappingNode) else None

    def line_of(self, path: str) -> int:
        """The line of a key, such as `vllm-fleet:server.engine.maxModelLen`, or of the nearest key above it that is
        there: a default and a profile's value have no line of their own.
        """
        namespace, colon, rest = path.partition(":")
        first, *others = rest.split(".") if colon else path.split(".")
        node: yaml.Node | None = self._config
        line = 1
        for key in (f"{namespace}{colon}{first}" if colon else first, *others):
            at, node = _entry(node, key)
            if at == 0:
                break
            line = at
        return line


def _entry(node: yaml.Node | None, key: str) -> tuple[int, yaml.Node | None]:
    """Line and value of a key of a map; 0 where it has none."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == key:
                return name.start_mark.line + 1, value
    return 0, None
