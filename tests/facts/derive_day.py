"""Writes facts/data/day.csv from a checkout of ServeGen: `python -m tests.facts.derive_day CHECKOUT`. Needs that repository alone."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from facts.day import FILE, SLOT_SECONDS

TRACES = {"bursty": "m-large", "daily": "m-small"}
SLOTS = 14 * 24 * 6
NOTICE = """\
# Load of two public chat models over 14 days: mean requests/s of each ten minutes, in thousandths of the fortnight's largest.
# Derived from ServeGen (https://github.com/alibaba/ServeGen, commit f891d1189eb32b3868dfc443800c4150548c282a), by its authors at
# Alibaba, Apache License 2.0 (http://www.apache.org/licenses/LICENSE-2.0). Changed: rates of all clients of a model summed by ten minutes
# (bursty: data/language/m-large, 162 clients, mean 195.8 requests/s, largest 583.0; daily: data/language/m-small, 43 clients, mean
# 1,174.4, largest 3,879.5), scaled, rounded. Of `daily`, 37 zeros in days 7 to 13 are gaps of the trace, filled in a straight line.
# The trace starts at an hour 0 of a day 0; it names neither date nor time zone. tests/facts/derive_day.py wrote this file.
"""


def sums(folder: Path) -> list[float]:
    """Requests/s of all clients together, by ten minutes."""
    found: dict[int, float] = defaultdict(float)
    for path in sorted(folder.glob("chunk-*-trace.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for second, rate, *_ in csv.reader(file):
                found[int(float(second)) // SLOT_SECONDS] += float(rate)
    return [found[slot] for slot in range(SLOTS)]


def filled(values: Sequence[float]) -> Iterator[float]:
    """Zeros replaced by the straight line between their neighbours."""
    for slot, value in enumerate(values):
        before = next(at for at in range(slot, -1, -1) if values[at])
        after = next(at for at in range(slot, len(values)) if values[at])
        share = (slot - before) / (after - before) if after > before else 0.0
        yield value or values[before] + share * (values[after] - values[before])


def main(checkout: Path) -> None:
    """Writes the file."""
    columns = []
    for trace in TRACES.values():
        values = list(filled(sums(checkout / "data" / "language" / trace)))
        columns.append([round(1000 * value / max(values)) for value in values])
    rows = "".join(f"{','.join(map(str, row))}\n" for row in zip(*columns, strict=True))
    FILE.write_text(f"{NOTICE}{','.join(TRACES)}\n{rows}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
