"""Tests of how figures are made of runs, and of the routers' configurations."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.results.result import RehearsalError
from lab.routers import measure, programs, ranks
from lab.routers.measure import KIB, LONG_PROMPT, SHORT_PROMPT, Seen
from tests.support.rows import each_row


def seen(requests: int, prompt: int, chunks: int) -> Seen:
    """100 us a request, 5 us a KiB, 20 us a chunk."""
    cpu = 1e-6 * (100 * requests + 5 * requests * prompt / KIB + 20 * chunks)
    return Seen(clients={}, ranks={"accepted": requests, "chunks": chunks}, router_cpu=cpu)


def test_request_prompt_and_chunk_are_told_apart() -> None:
    runs = (seen(1_000, SHORT_PROMPT, 1_000), seen(500, LONG_PROMPT, 500), seen(20, SHORT_PROMPT, 8_000))
    request, chunk, kib = measure.parts(*runs)
    assert (request, chunk, kib) == pytest.approx((100e-6, 20e-6, 5e-6))


def test_failures_end_a_measurement() -> None:
    failed: dict[str, Any] = {"failures": {"status 503": {"count": 1}}}
    running = programs.Running(router=programs.LEAST, targets=())
    with pytest.raises(RehearsalError, match="leastRequest: requests failed"):
        measure._seen(programs.LEAST, failed, {}, running, 0.0)


def test_every_rank_has_an_address_of_its_own() -> None:
    assert len(set(ranks.addresses())) == ranks.SERVERS * ranks.RANKS == 64


@each_row("router", [programs.LEAST, *programs.CANDIDATES])
def test_haproxy_accepts_each_candidate_and_listens_on_loopback_alone(router: programs.Router, tmp_path: Path) -> None:
    text = programs.config(router, 7_100, ranks.addresses())
    file = tmp_path / "haproxy.cfg"
    file.write_text(text)
    checked = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert ("balance leastconn" in text) == (router == programs.LEAST)
    assert all(f" {address}\n" in text for address in ranks.addresses())
    binds = [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["bind"]]
    assert binds
    assert all(bind.startswith("127.0.0.1:") for bind in binds)
