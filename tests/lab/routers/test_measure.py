"""Tests of how figures are made of runs."""

from __future__ import annotations

from typing import Any

import pytest

from lab.control_plane import build
from lab.results.result import RehearsalError
from lab.routers import measure, programs, ranks
from lab.routers.measure import KIB, LONG_PROMPT, SHORT_PROMPT, Seen
from settings.sections.gateway import Gateway


def seen(cpu: float, requests: int, chunks: int, failures: dict[str, Any] | None = None) -> Seen:
    return Seen(
        clients={
            "failures": failures or {},
            "peak_open": 5,
            "requests": requests,
            "leaked_addresses": 0,
        },
        router_cpu=cpu,
        ranks_cpu=0.0,
        seconds=1.0,
        all_requests=requests,
        all_chunks=chunks,
    )


def cpu(requests: int, prompt: int, chunks: int) -> float:
    """100 us a request, 5 us a KiB, 20 us a chunk, a tenth of a core idle."""
    return 0.1 + 1e-6 * (100 * requests + 5 * requests * prompt / KIB + 20 * chunks)


def test_request_prompt_and_chunk_are_told_apart_after_the_idle_load() -> None:
    runs = (
        seen(cpu(1_000, SHORT_PROMPT, 1_000), 1_000, 1_000),
        seen(cpu(500, LONG_PROMPT, 500), 500, 500),
        seen(cpu(20, SHORT_PROMPT, 8_000), 20, 8_000),
    )
    request, chunk, kib = measure._parts(*runs, idle=0.1)
    assert (request, chunk, kib) == pytest.approx((100e-6, 20e-6, 5e-6))


def test_failures_end_a_measurement_of_cost_or_balance() -> None:
    with pytest.raises(RehearsalError, match="picker: requests failed"):
        measure._no_failures(programs.PICKER, seen(0, 1, 1, {"status 503": {"count": 1}}))


def test_errors_after_a_death_are_counted_and_timed() -> None:
    failures = {
        "status 503": {"count": 2, "first": 11.0, "last": 14.5},
        "connect": {"count": 1, "first": 10.5, "last": 10.5},
    }
    found = measure._after(seen(0, 9, 9, failures), at=10.0)
    assert found["errors"] == {"connect": 1, "status 503": 2}
    assert found["seconds_until_none"] == pytest.approx(4.5)
    assert measure._after(seen(0, 9, 9), at=10.0)["seconds_until_none"] == 0.0


def test_every_rank_has_an_address_of_its_own() -> None:
    assert len(set(ranks.addresses())) == ranks.PODS * ranks.RANKS == 64


def test_haproxy_has_every_rank_and_listens_on_loopback_alone() -> None:
    text = programs.haproxy_config(7_100, ranks.addresses())
    assert all(f" {address}\n" in text for address in ranks.addresses())
    binds = [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["bind"]]
    assert binds
    assert all(bind.startswith("127.0.0.1:") for bind in binds)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(RehearsalError, match="apt-get install haproxy"):
        programs.found(tmp_path / "routerload")


def test_the_picker_is_of_the_release_that_stacks_install() -> None:
    assert build.ROUTERS.version == Gateway().chart_version
    assert {file.name for file in build.ROUTERS.files} >= {
        "go.mod",
        "go.sum",
        "main.go",
        "ranks.go",
        "clients.go",
        "picker.go",
    }
