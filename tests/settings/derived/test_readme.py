"""The stack's page names the stack's own values."""

from __future__ import annotations

import pytest

from settings.derived.readme import filled


def test_outputs_stand_where_the_page_names_them() -> None:
    page = "${outputs.stack} at ${outputs.usdPerHour} in ${outputs.platform.region}, ${outputs.atLeast}; $HOME"
    outputs = {"stack": "dev", "usdPerHour": 1.3, "platform": {"region": "europe-west4"}, "atLeast": True}
    assert filled(page, outputs) == "dev at 1.3 in europe-west4, true; $HOME"


def test_an_output_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="stack"):
        filled("${outputs.stack}", {})
