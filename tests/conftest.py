"""What the suite says at its end."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the closing lines that tests have recorded; with several workers, only the reports reach this process."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, value in getattr(report, "user_properties", ()):
            if name == "closing line" and report.when == "call":
                terminalreporter.write_line(str(value))
