"""Parts of Kubernetes objects for kubectl.

Parts are an `...ArgsDict` of the SDK, which mypy checks and which costs nothing at run time; the SDK translates their keys when it sends
an object. `fleet bench run` and `fleet batch run` send objects themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def sent(part: Any) -> Any:
    """The part with the API's own keys: `mount_path` as `mountPath`."""
    if isinstance(part, Mapping):
        return {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): sent(value) for key, value in part.items()}
    return [sent(item) for item in part] if isinstance(part, list | tuple) else part
