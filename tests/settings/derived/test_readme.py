"""The stack's page names the stack's own values."""

from __future__ import annotations

from settings.derived.readme import filled


def test_outputs_stand_where_the_page_names_them() -> None:
    page = "${outputs.stack} at ${outputs.usdPerHour} in ${outputs.platform.region}, ${outputs.atLeast}; $HOME"
    outputs = {"stack": "dev", "usdPerHour": 1.3, "platform": {"region": "europe-west4"}, "atLeast": True}
    assert filled(page, outputs) == "dev at 1.3 in europe-west4, true; $HOME"


def test_a_price_that_nobody_published_is_unknown() -> None:
    assert filled("${outputs.usdPerHour} USD in ${outputs.platform.region}", {}) == "unknown USD in unknown"
