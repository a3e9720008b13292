"""The outputs that the stack file decides, and the stack's page with its outputs filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from settings.derived.figures import Figures
    from settings.stack import Settings


PAGE: Final = Path(__file__).parents[2] / "Pulumi.README.md"


def filled(outputs: Mapping[str, Any]) -> str:
    """`${outputs.NAME}` and `${outputs.NAME.KEY}` replaced, as Pulumi Cloud does where it shows the page.

    A missing one is "unknown": the program exports no price where none is published.
    """

    def value(match: re.Match[str]) -> str:
        output: Any = outputs
        for key in match[1].split("."):
            output = output.get(key, "unknown") if isinstance(output, Mapping) else output
        return output if isinstance(output, str) else json.dumps(output)

    return re.sub(r"\$\{outputs\.([\w.]+)\}", value, PAGE.read_text(encoding="utf-8"))


def described(settings: Settings, figures: Figures) -> dict[str, Any]:
    """Outputs that the stack file decides. Published figures carry their label; see docs/provenance.md."""
    return {
        "stack": settings.stack,
        "namespace": settings.namespace,
        "server": settings.server.name,
        "modelRevision": settings.serving.model.revision,
        "profile": settings.serving.profile.name,
        "project": settings.project,
        "region": settings.region,
        **figures.exports(),
    }
