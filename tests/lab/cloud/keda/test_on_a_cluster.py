"""The real HPA controller under the stand-in for KEDA."""

from __future__ import annotations

import copy

import pytest

from facts.names import PAUSED_REPLICAS
from lab.cloud.keda.operator import AUTOSCALER, SCALED_OBJECT
from lab.cloud.keda.triggers import TriggerError
from lab.control_plane.api import DEPLOYMENT, ApiRefusedError, Manifest
from lab.control_plane.build import Binaries
from tests.lab.cloud.keda.played import SPACE, played, scaled_object

pytestmark = pytest.mark.slow


def no_answer(_: str) -> list[float]:
    raise TriggerError("prometheus query api returned error. status: 503")


def test_load_scales_up_an_outage_drops_nothing_and_a_second_owner_is_refused(
    binaries: Binaries, quick_stages: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    with played(binaries, quick_stages, speed=120, replicas=1) as run:
        run.keda.in_flight.offer(50)
        run.api.apply(scaled_object())
        run.within(lambda: run.conditions().get("HPAActive") == "True")
        assert run.replicas == 1
        run.keda.in_flight.offer(380)
        run.within(lambda: run.replicas == 4)
        behavior = run.autoscaler()["spec"]["behavior"]
        assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 20
        assert [policy["periodSeconds"] for policy in behavior["scaleDown"]["policies"]] == [8]

        with monkeypatch.context() as outage:
            outage.setattr(run.keda.in_flight, "query", no_answer)
            run.within(lambda: run.conditions()["Fallback"] == "True")
            assert run.seen_for(1200) == {4}
        run.within(lambda: run.conditions()["Fallback"] == "False")

        other = copy.deepcopy(scaled_object())
        other["metadata"]["name"] = "second"
        with pytest.raises(ApiRefusedError, match="already managed by the ScaledObject 'fleet'"):
            run.api.create(other)

        # Zero by hand disables the HPA, and KEDA writes the first replica again; zero by its annotation holds.
        run.api.patch(DEPLOYMENT, "fleet", SPACE, {"spec": {"replicas": 0}}, subresource="scale")
        run.within(lambda: run.replicas >= 1)
        held = scaled_object()
        held["metadata"]["annotations"] = {PAUSED_REPLICAS: "0"}
        run.api.apply(held)
        # The autoscaler that ended may have read its Deployment before, and writes once more.
        run.within(lambda: not run.autoscaler() and run.seen_for(60) == {0})
        assert run.seen_for(300) == {0}
        run.api.apply(scaled_object())
        run.within(lambda: run.replicas >= 1 and bool(run.autoscaler()))

        run.api.delete(SCALED_OBJECT, "fleet", SPACE)
        run.within(lambda: not run.autoscaler() and run.api.get(SCALED_OBJECT, "fleet", SPACE) is None)


def test_a_minimum_of_zero_and_an_empty_answer_take_a_whole_fleet_at_once(
    binaries: Binaries, quick_stages: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEDA's defaults: no answer counts as zero, and zero for five minutes ends the fleet past every window of the HPA."""
    with played(binaries, quick_stages, speed=120, replicas=12) as run:
        run.keda.in_flight.offer(1150)
        # A first answer of zero would end the fleet at once: nothing has been active yet that a cooldown could count from.
        run.clock.sleep(300)
        spec = scaled_object(minReplicaCount=0, maxReplicaCount=12, fallback=None)
        del spec["spec"]["triggers"][0]["metadata"]["ignoreNullValues"]
        run.api.apply(spec)
        run.within(lambda: run.conditions().get("HPAActive") == "True" and run.conditions()["Active"] == "True")
        assert run.seen_for(600) == {12}
        monkeypatch.setattr(run.keda.in_flight, "query", lambda _: [])
        began = run.clock.now_seconds()
        run.within(lambda: run.meter.servers.now == 0)
        assert run.autoscaler()["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 20
        assert run.meter.servers.highest(began) == 12


def test_a_scaled_object_before_its_deployment_waits_up_to_a_thousand_seconds_after_it(
    binaries: Binaries, quick_stages: list[Manifest]
) -> None:
    with played(binaries, quick_stages, speed=60, replicas=1) as run:
        early = scaled_object(scaleTargetRef={"name": "later"})
        early["metadata"]["name"] = "later"
        began = run.clock.now_seconds()
        run.api.apply(early)
        run.clock.sleep(1100)  # after the retry at 655 s
        deployment = copy.deepcopy(run.api.get(DEPLOYMENT, "fleet", SPACE))
        assert deployment is not None
        labels = {"app": "later"}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": deployment["spec"]["template"]}
        spec["template"]["metadata"] = {"labels": labels}
        run.api.apply({**deployment, "metadata": {"name": "later", "namespace": SPACE}, "spec": spec, "status": {}})
        run.within(lambda: bool(run.api.get(AUTOSCALER, "keda-hpa-later", SPACE)))
        waited = run.clock.now_seconds() - began
        # 5 ms, doubled by each failure: the nineteenth attempt is 0.005 * (2**18 - 1) = 1,311 s after the first.
        assert 1300 < waited < 1500


def test_a_missing_authentication_is_told_in_the_status_and_nothing_is_scaled(
    binaries: Binaries, quick_stages: list[Manifest]
) -> None:
    with played(binaries, quick_stages, speed=120, replicas=1) as run:
        spec = scaled_object()
        spec["spec"]["triggers"][0]["authenticationRef"]["name"] = "other"
        run.api.apply(spec)
        run.within(lambda: run.conditions().get("Ready") == "False")
        assert not run.autoscaler()
