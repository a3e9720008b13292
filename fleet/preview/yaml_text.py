"""Writes readable YAML that all parsers interpret the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FIRST: Final = ("apiVersion", "kind", "metadata", "name")
_AMBIGUOUS: Final = re.compile(
    # Whatever some parser takes for a number, a date, a time, a boolean or null although it is text.
    r"[-+]?[.\d][\d_.,:eExXoObB+\-TtZz]*[a-fA-F\d]*|0[xX][\da-fA-F]+|y|n|yes|no|on|off|true|false|null|~|[-+]?\.(inf|nan)|",
    re.IGNORECASE,
)


class _Dumper(_Base):  # type: ignore[misc]
    """Block style, no anchors, scripts as literal blocks, ambiguous text quoted."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write equal values out twice: an anchor helps no reader of a manifest."""
        return True


def _text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else '"' if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _map(dumper: Any, value: Mapping[str, Any]) -> Any:
    first = [(key, value[key]) for key in _FIRST if key in value]
    return dumper.represent_mapping(
        "tag:yaml.org,2002:map", first + [(key, item) for key, item in value.items() if key not in _FIRST]
    )


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _map)


def to_yaml(value: Mapping[str, Any]) -> str:
    """The value as a YAML document. What names a thing comes first, other keys as they are."""
    return str(yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True))
