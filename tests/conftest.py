"""How properties are tested, and what the suite says at its end."""

from __future__ import annotations

import gc
import os
import signal

import hypothesis
import pytest

# No example is judged by the clock: on a busy machine the first one, which builds schemas, takes longer than any limit that
# would say something. In continuous integration every run tries the same examples; elsewhere each tries new ones.
hypothesis.settings.register_profile("fleet", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("fleet")


# A shell has what it starts in the background ignore Ctrl-C, and nohup the hang-up; every process that a test starts to interrupt it
# would inherit that and go on for ever.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """Leave alone what lives as long as the suite: the SDKs' classes and the tests themselves.

    Measured: 11 % of the suite's CPU went into walking through them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the closing lines that tests have recorded; with several workers, only the reports reach this process."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, value in getattr(report, "user_properties", ()):
            if name == "closing line" and report.when == "call":
                terminalreporter.write_line(str(value))
