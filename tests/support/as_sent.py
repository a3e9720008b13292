"""Parts of Kubernetes objects, written with the SDK's names, as the API spells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def as_sent(value: Any) -> Any:
    """`volume_mounts` as `volumeMounts` on every level. Keys of labels, selectors and amounts have no underscore."""
    if isinstance(value, Mapping):
        return {_camel(key): as_sent(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_sent(one) for one in value]
    return value


def _camel(key: str) -> str:
    # `from_` and `except_` are words of Python.
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), key.removesuffix("_"))
