"""The split of a gateway's loss: its arithmetic against draws, and which folders it accepts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Asked
from fleet.bench.gateway_loss.page import split_outline
from fleet.bench.gateway_loss.split import Measured, Part, measured_in, parts
from fleet.bench.gateway_loss.variants import (
    DIRECT,
    DIRECT_INTERVAL,
    DIRECT_WHOLE,
    GATEWAY,
    GATEWAY_INTERVAL,
    GATEWAY_WHOLE,
    RANDOM,
    SERVICE,
    Variant,
)
from fleet.report.render import rendered
from tests.fleet.bench.measurements import FLAGS, a_judged
from tests.fleet.bench.merge.folders import copied, edit
from tests.fleet.cli.command import fleet
from tests.support.rows import each_row

RATES = {
    DIRECT: 190_000.0,
    SERVICE: 180_500.0,
    RANDOM: 133_000.0,
    GATEWAY: 131_100.0,
    DIRECT_WHOLE: 200_000.0,
    GATEWAY_WHOLE: 196_000.0,
    DIRECT_INTERVAL: 195_000.0,
    GATEWAY_INTERVAL: 175_500.0,
}


def measured(variant: Variant, values: Sequence[float]) -> Measured:
    return Measured(variant=variant, values=tuple(values), chunks_per_s=1_000.0, lacks=())


def by_id(found: Sequence[Part]) -> dict[str, Part]:
    return {one.id: one for one in found}


def test_the_parts_are_differences_and_three_of_them_add_up_to_the_loss() -> None:
    found = by_id(parts([measured(variant, [rate, rate, rate]) for variant, rate in RATES.items()]))
    shares = {id_: part.share.value for id_, part in found.items() if part.share is not None}
    assert shares == pytest.approx(
        {
            "loss": 0.31,
            "proxy": 0.05,
            "calls": 0.25,
            "choice": 0.01,
            "loss-interval": 0.10,
            "loss-whole": 0.02,
            "goes-with-interval": 0.21,
            "goes-with-streams": 0.29,
        }
    )
    assert shares["proxy"] + shares["calls"] + shares["choice"] == pytest.approx(shares["loss"])


def test_each_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """Of 60 sessions with three runs each; the spread of runs is that of a fleet, 1 %, and of one measurement 3 %."""
    dice = np.random.default_rng(3)
    spreads = dict.fromkeys(RATES, 0.01) | {GATEWAY: 0.03}
    true = by_id(parts([measured(variant, [rate, rate]) for variant, rate in RATES.items()]))
    held = dict.fromkeys(true, 0)
    for _ in range(60):
        drawn = [measured(one, dice.normal(rate, spreads[one] * rate, 3).tolist()) for one, rate in RATES.items()]
        for id_, part in by_id(parts(drawn)).items():
            truth = true[id_].share
            assert part.share is not None
            assert truth is not None
            held[id_] += abs(part.share.value - truth.value) <= part.share.half
    # 95 % of 60 is 57, with a standard deviation of 1.7; few degrees of freedom make Welch's intervals rather wide.
    assert all(52 <= count <= 60 for count in held.values()), held


def test_parts_of_missing_measurements_say_what_is_missing() -> None:
    found = by_id(parts([measured(one, [RATES[one], RATES[one] * 1.001]) for one in (DIRECT, GATEWAY, SERVICE)]))
    assert {id_ for id_, part in found.items() if part.share is not None} == {"loss", "proxy"}
    assert found["calls"].missing == ("random-picks",)
    assert found["loss-whole"].missing == ("gateway-not-streamed", "direct-not-streamed")
    assert found["goes-with-streams"].missing == ("gateway-not-streamed", "direct-not-streamed")
    document = json.loads(
        rendered(split_outline("gateway", [measured(one, [1.0, 1.1]) for one in (DIRECT, GATEWAY)]), "json")
    )
    assert [one["id"] for one in document["parts"]] == list(found)


def session_folder(to: Path) -> Path:
    """Two measurements of one stack: without a gateway and with it."""
    for variant in (DIRECT, GATEWAY):
        (to / variant.id).parent.mkdir(parents=True, exist_ok=True)
        made = copied(to, repeats=2)
        made.rename(to / variant.id)
        edit(to / variant.id / "run.json", lambda run, of=variant: run["shape"].update(routing=of.routing))
    return to


def test_a_sessions_folder_is_split_by_the_command(tmp_path: Path) -> None:
    folder = session_folder(tmp_path / "results")
    done = fleet("bench", "gateway-loss", "--stack", "gateway", "--results", str(folder), "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found = {one["id"]: one for one in document["parts"]}
    assert found["loss"]["share"] == pytest.approx(0, abs=1e-9)  # the same results in both
    assert found["loss"]["half_width"] > 0
    assert found["calls"]["missing"] == ["service", "random-picks"]
    assert [one["id"] for one in document["measurements"]] == ["direct", "gateway"]


def _of_shape(**fields: Any) -> Callable[[Asked], Asked]:
    return lambda asked: asked.model_copy(update={"shape": asked.shape.model_copy(update=fields)})


def _whole(asked: Asked) -> Asked:
    return asked.model_copy(update={"workload": asked.workload.model_copy(update={"streamed": False})})


@each_row(
    ("change", "words"),
    {
        "routing": (_of_shape(routing="load-balancer"), "routing is load-balancer, not inference-gateway"),
        "interval": (_of_shape(flags={**FLAGS, "stream-interval": 20}), "--stream-interval is 20, not unset"),
        "model": (_of_shape(model="another/model"), "model is another/model, of direct"),
        "options": (_of_shape(flags={**FLAGS, "max-num-seqs": 7}), "other engine options than direct"),
        "load": (lambda asked: asked.model_copy(update={"prompts_per_client": 9}), "another load than direct"),
        "not streamed": (_whole, "answers were not streamed"),
    }.values(),
)
def test_a_folder_that_measured_something_else_is_refused(
    change: Callable[[Asked], Asked], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = a_judged()
    assert direct.measurement.asked is not None
    asked = change(_of_shape(routing="inference-gateway")(direct.measurement.asked))
    there = {
        "direct": direct,
        "gateway": direct.model_copy(update={"measurement": direct.measurement.model_copy(update={"asked": asked})}),
    }
    monkeypatch.setattr("fleet.bench.gateway_loss.split.judged_of", lambda folder: there[folder.name])
    for name in there:
        (tmp_path / name).mkdir(exist_ok=True)
    with pytest.raises(BenchmarkError) as refused:
        measured_in(tmp_path)
    assert words in str(refused.value)


def test_a_folder_without_its_two_ends_is_refused(tmp_path: Path) -> None:
    copied(tmp_path, repeats=2).rename(tmp_path / "direct")
    with pytest.raises(BenchmarkError, match=r": gateway missing"):
        measured_in(tmp_path)
