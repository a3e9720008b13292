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

    def value(match: re.Match[str]) -> str:
        output: Any = outputs
        for key in match[1].split("."):
            output = output.get(key, "unknown") if isinstance(output, Mapping) else output
        return output if isinstance(output, str) else json.dumps(output)

    return re.sub(r"\$\{outputs\.([\w.]+)\}", value, page)
