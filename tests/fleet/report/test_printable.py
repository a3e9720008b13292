"""Nothing that somebody else wrote moves a terminal's cursor, hides text or rings its bell."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from fleet.cli.main import main
from fleet.report.as_text import print_text
from fleet.report.live_line import LiveLine
from fleet.report.outline import Outline, Prose
from fleet.report.printable import Printer, beneath, printable
from fleet.report.terminal import Paper
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row

EVIL = "a\x1b[2J\x9b31m\x07\r\u202eb"
SHOWN = r"a\u001b[2J\u009b31m\u0007\u000d\u202eb"


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("│ two\n\tlines – @\u200bname ✓") == "│ two\n\tlines – @\u200bname ✓"


@each_row("form", CANARIES)
def test_no_secret_is_printed_whoever_wrote_it(form: str) -> None:
    text = json.dumps({"name": CANARIES[form]}) if form != "pem" else f"name: {CANARIES[form]}."
    assert not shown(printable(text))
    assert printable("--token=word-of-a-help-page") == "--token=word-of-a-help-page"


@pytest.mark.parametrize("form", ["hugging-face", "github", "jwt"])
def test_no_secret_of_a_command_line_is_printed(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([CANARIES[form]], ["plan", CANARIES[form]], ["models", "--machine", CANARIES[form]]):
        monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
        assert main() == 2
        said = capsys.readouterr()
        assert not shown(said.out + said.err), arguments


def test_a_document_of_json_stays_one() -> None:
    text = json.dumps({"a": "\u202e\x7f\x85"}, ensure_ascii=False)
    assert json.loads(printable(text)) == json.loads(text)


def test_a_page_with_styles_has_no_escapes_but_its_own() -> None:
    stream = io.StringIO()
    paper = Paper(stream=Printer(stream), width=80, styled=True)  # type: ignore[arg-type]
    print_text(paper, Outline(title=EVIL, body=(Prose(EVIL),)))
    assert stream.getvalue().count(SHOWN.replace(r"\u000d", " ")) == 2  # Markdown has no carriage return
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def test_a_live_line_is_cleaned() -> None:
    stream = io.StringIO()
    with LiveLine(stream, 80, lambda: ([EVIL], "1 s")) as line:
        line.above(EVIL)
    assert "\x1b[2J" not in stream.getvalue()
    assert SHOWN in stream.getvalue()


def test_the_command_cleans_both_of_its_streams(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fleet", "preview", "--stack", EVIL])
    assert main() == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert r"\u001b[2J" in said.err or r"\x1b[2J" in said.err
    assert beneath(sys.stdout) is sys.stdout
