"""The stack's page with its outputs filled in: the output `readme`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def filled(page: str, outputs: Mapping[str, Any]) -> str:
    """`${outputs.NAME}` and `${outputs.NAME.KEY}` replaced, as Pulumi Cloud does where it shows the page.

    A missing one is "unknown": the program exports no price where none is published.
    """

    def value(found: re.Match[str]) -> str:
        one: Any = outputs
        for key in found[1].split("."):
            one = one.get(key, "unknown") if isinstance(one, Mapping) else one
        return one if isinstance(one, str) else json.dumps(one)

    return re.sub(r"\$\{outputs\.([\w.]+)\}", value, page)
