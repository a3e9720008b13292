from __future__ import annotations

from pathlib import Path

from facts.redact import Redactor
from fleet.cli.documents import deliver
from fleet.report.terminal import Paper


def test_a_name_that_is_not_utf_8_is_escaped_in_a_document(tmp_path: Path) -> None:
    name = "file a\udcffb"

    def printed(paper: Paper) -> None:
        paper.stream.write(name)

    deliver(name, tmp_path / "text")
    deliver(printed, tmp_path / "printed")
    for file in tmp_path.iterdir():
        assert file.read_text(encoding="utf-8") == r"file a\udcffb"
    assert Redactor([name]).text(f"it is {name}") == "it is [secret]"
