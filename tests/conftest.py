"""How properties are tested, and what the suite says at its end."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from fleet.preview.record import quick_sdk

# As in `fleet preview`: the modules that a program names, not the two hundred around each.
quick_sdk.install()

GOLDENS = Path(__file__).parent / "goldens"
Golden = Callable[[str, str], None]
"""What the fixture `golden` gives."""
_RECORDINGS = pytest.StashKey[tempfile.TemporaryDirectory[str]]()

# No example is judged by the clock: on a busy machine the first one, which builds schemas, takes longer than any limit that
# would say something. Every run tries the same examples, so that a change is not refused for what it did not touch: new ones are
# looked for with `--hypothesis-profile=new`.
hypothesis.settings.register_profile("fleet", deadline=None, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("new", deadline=None, derandomize=False, max_examples=500)
hypothesis.settings.load_profile("fleet")
# It also tries constants of the modules that are loaded, and so of the tests that happened to run before.
providers._get_local_constants = lambda: providers._local_constants


# Prices age, and a finding says so: the day of every report that a test holds against its text.
os.environ["SOURCE_DATE_EPOCH"] = "1787184000"  # 2026-08-20

# A shell has what it starts in the background ignore Ctrl-C, and nohup the hang-up; every process that a test starts to interrupt it
# would inherit that and go on for ever.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all workers of a run one folder for recordings of stacks (tests/support/stacks.py)."""
    folder = node.config.stash.get(_RECORDINGS, None)
    if folder is None:
        folder = node.config.stash[_RECORDINGS] = tempfile.TemporaryDirectory(prefix="recordings-")
        node.config.add_cleanup(folder.cleanup)
    node.workerinput["recordings"] = folder.name


def pytest_configure(config: pytest.Config) -> None:
    """In a worker, tell where recordings are shared."""
    if hasattr(config, "workerinput"):
        os.environ["SHARED_RECORDINGS"] = config.workerinput["recordings"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make goldens` writes the reports' texts anew instead of comparing them."""
    parser.addoption("--write-goldens", action="store_true", help="write tests/goldens anew; read the diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that hold a report against its text, so that `make goldens` runs them alone."""
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.add_marker("golden")


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    """Hold a whole report against tests/goldens/NAME. Its wording is reviewed there; other tests ask for ids, values, structure."""

    def held(name: str, text: str) -> None:
        file = GOLDENS / name
        if pytestconfig.getoption("--write-goldens"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), (
            f"tests/goldens/{name} differs; `make goldens`, and read the diff"
        )

    return held


def pytest_collection_finish() -> None:
    """Leave alone what lives as long as the suite: the SDKs' classes and the tests themselves.

    Measured: 11 % of the suite's CPU went into walking through them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.enable()  # which quick_sdk has turned off
    # Old objects are those that tests share: they are walked through once, at the end.
    gc.set_threshold(100_000, 20, 100_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the closing lines that tests have recorded; with several workers, only the reports reach this process."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, value in getattr(report, "user_properties", ()):
            if name == "closing line" and report.when == "call":
                terminalreporter.write_line(str(value))
