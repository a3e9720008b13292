"""An outline as one JSON document: its documented keys, then all findings in the one shape of `facts/finding.py`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from facts.finding import JSON_VERSION

if TYPE_CHECKING:
    from fleet.report.outline import Outline


def json_text(outline: Outline) -> str:
    """The document. `version` counts changes of the findings' shape."""
    document = {
        "version": JSON_VERSION,
        **outline.data,
        "findings": [finding.as_json() for finding in outline.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
