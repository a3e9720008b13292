"""Whatever the models allow is judged: no traceback, and certified only when every required check passed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from fleet.bench.certificate import baseline, certify
from fleet.bench.measurement import ClientResult, Measurement, Run, ServerMetrics
from fleet.bench.repeats import welch_half_width
from tests.fleet.bench.certificate.any_measurement import any_of
from tests.fleet.bench.certificate.sound import sound

MODELS: list[type[BaseModel]] = [Run, ClientResult, ServerMetrics]
SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.slow
@settings(suppress_health_check=SLOW_TO_DRAW)
@given(any_of(Measurement))
def test_any_measurement_has_a_verdict(measurement: Measurement) -> None:
    _judge(measurement)


@settings(suppress_health_check=SLOW_TO_DRAW)
@given(st.data())
def test_a_sound_measurement_with_one_field_of_anything_has_a_verdict(data: st.DataObject) -> None:
    run = sound().runs[1]
    model: type[BaseModel] = data.draw(st.sampled_from(MODELS))
    drawn = data.draw(any_of(model))
    field = data.draw(st.sampled_from(sorted(model.model_fields)))
    change = {field: getattr(drawn, field)}
    if model is Run:
        run = run.model_copy(update=change)
    elif model is ClientResult:
        run = run.model_copy(update={"clients": (run.clients[0].model_copy(update=change), *run.clients[1:])})
    else:
        run = run.model_copy(update={"server": run.server and run.server.model_copy(update=change)})
    _judge(sound().model_copy(update={"runs": (sound().runs[0], run, sound().runs[2])}))


@pytest.mark.slow
@settings(suppress_health_check=SLOW_TO_DRAW)
@given(any_of(Measurement))
def test_any_measurement_is_compared_or_not_comparable(measurement: Measurement) -> None:
    stored = baseline.of(sound())
    certificate = certify(sound())
    for found in (
        baseline.compare(measurement, stored),
        baseline.compare(measurement, baseline.of(measurement), certificate),
    ):
        assert all(one.why for one in found)


@given(st.lists(st.floats(), min_size=2, max_size=4), st.lists(st.floats(), min_size=2, max_size=4))
def test_any_values_have_a_width(before: list[float], after: list[float]) -> None:
    assert welch_half_width(before, after) >= 0


def _judge(measurement: Measurement) -> None:
    certificate = certify(measurement)
    assert certificate.headline
    passed = all(
        check.verdict == "passed" or (check.verdict == "not measured" and not check.required)
        for check in certificate.checks
    )
    assert (certificate.verdict == "certified") == passed
    assert len({check.id for check in certificate.checks}) == len(certificate.checks) == 27
    for check in certificate.checks:
        assert check.title
        assert check.allowed
        assert check.why
        assert check.found, check.id
