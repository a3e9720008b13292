"""DCGM's series become a file of the measurement, asked for once for the time that the pods' courses give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.bench.folder import DcgmSeries
from fleet.bench.run.gpu_history import AROUND_SECONDS, add_dcgm, span
from fleet.clients import stack_outputs
from fleet.clients.google_api import UserCredentials
from fleet.clients.prometheus import GAUGES, ManagedPrometheus, Servers
from tests.fleet.bench.made_up.results import BEGAN, make_measurement
from tests.fleet.clients.fake_google import HASTY, FakeGoogle
from tests.fleet.clients.test_stack_outputs import outputs

SERVERS = Servers(namespace="vllm", deployment="qwen35-server", pods=frozenset({"server-a"}))
STACK = stack_outputs.accept("try", outputs(), "here")


@pytest.fixture
def prometheus(google: FakeGoogle, login: UserCredentials) -> ManagedPrometheus:
    return ManagedPrometheus("my-project", login, url=google.url, retry=HASTY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_measurement(tmp_path / "made", requests_per_client=24, repeats=2, with_gpu=False)


def test_the_time_asked_for_is_that_of_the_pods_steps(
    folder: Path, google: FakeGoogle, prometheus: ManagedPrometheus
) -> None:
    found = span(folder)
    assert found is not None
    began, ended = found
    assert BEGAN - 120 <= began < ended
    series = [{"metric": {"pod": "server-a", "gpu": "0"}, "values": [[began, "700"], [ended + 60, "710.5"]]}]
    google.series = dict.fromkeys(GAUGES, series)
    assert add_dcgm(folder, prometheus, STACK, SERVERS) is None
    assert google.forms[0]["start"] == f"{began - AROUND_SECONDS:.0f}"
    assert google.forms[0]["end"] == f"{ended + AROUND_SECONDS:.0f}"
    written = DcgmSeries.model_validate_json((folder / "dcgm.json").read_text())
    assert [one.metric for one in written.series] == list(GAUGES)
    assert written.series[0].samples[1] == (ended + 60, 710.5)
    google.forms.clear()
    assert add_dcgm(folder, prometheus, STACK, SERVERS) is None
    assert google.forms == []


def test_what_was_missing_is_asked_for_again(folder: Path, google: FakeGoogle, prometheus: ManagedPrometheus) -> None:
    problem = add_dcgm(folder, prometheus, STACK, SERVERS)
    assert problem is not None
    assert json.loads((folder / "dcgm.json").read_text()) == {"schema": 1, "series": [], "problem": problem}
    google.forms.clear()
    add_dcgm(folder, prometheus, STACK, SERVERS)
    assert google.forms != []


def test_what_is_there_already_is_not_lost_to_a_worse_answer(
    folder: Path, google: FakeGoogle, prometheus: ManagedPrometheus
) -> None:
    found = span(folder)
    assert found is not None
    _, ended = found
    google.series = {GAUGES[0]: [{"metric": {"pod": "server-a"}, "values": [[ended, "700"], [ended + 60, "710.5"]]}]}
    assert "no samples of" in (add_dcgm(folder, prometheus, STACK, SERVERS) or "")
    first = (folder / "dcgm.json").read_text()
    google.statuses = [403]
    assert "roles/monitoring.viewer" in (add_dcgm(folder, prometheus, STACK, SERVERS) or "")
    assert (folder / "dcgm.json").read_text() == first
    google.series = {}  # thrown away by now
    add_dcgm(folder, prometheus, STACK, SERVERS)
    assert (folder / "dcgm.json").read_text() == first
    google.series = {
        metric: [{"metric": {"pod": "server-a"}, "values": [[ended, "700"], [ended + 15, "NaN"], [ended + 60, "7"]]}]
        for metric in GAUGES
    }
    assert add_dcgm(folder, prometheus, STACK, SERVERS) is None
    written = DcgmSeries.model_validate_json((folder / "dcgm.json").read_text())
    assert [len(one.samples) for one in written.series] == [2] * len(GAUGES)


def test_without_a_pods_course_nothing_is_asked(
    tmp_path: Path, google: FakeGoogle, prometheus: ManagedPrometheus
) -> None:
    (tmp_path / "point-00-repeat-0").mkdir()
    problem = add_dcgm(tmp_path, prometheus, STACK, SERVERS)
    assert problem is not None
    assert "pod.json" in problem
    assert google.asked == []
