"""The stack's page names the stack's own values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from settings.derived import readme
from tests.support.rows import each_row


@each_row(
    ("page", "outputs", "shown"),
    [
        (
            "${outputs.stack} at ${outputs.usdPerHour} in ${outputs.platform.region}, ${outputs.atLeast}; $HOME",
            {"stack": "dev", "usdPerHour": 1.3, "platform": {"region": "europe-west4"}, "atLeast": True},
            "dev at 1.3 in europe-west4, true; $HOME",
        ),
        # A price that nobody published.
        ("${outputs.usdPerHour} USD in ${outputs.platform.region}", {}, "unknown USD in unknown"),
    ],
)
def test_outputs_stand_where_the_page_names_them(
    page: str, outputs: dict[str, Any], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "PAGE", tmp_path / "page")
    readme.PAGE.write_text(page)
    assert readme.filled(outputs) == shown
