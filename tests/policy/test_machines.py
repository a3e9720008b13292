"""The pack tells a pod's machine from its selectors and requests, for every machine, way and part of one that settings accept."""

from __future__ import annotations

from facts.machines import MACHINES, of_accelerator
from pods import pods
from tests.policy.samples import found, server
from tests.settings.checks.test_machine import stack
from tests.support.rows import each_row


@each_row("machine", sorted(MACHINES))
def test_what_settings_accept_is_sound_and_of_the_machine_that_was_named(machine: str) -> None:
    facts = MACHINES[machine]
    for way in sorted(facts.ways):
        for gpus in facts.pod_gpus:
            settings = stack(machine, way, gpus)
            selector, asked = settings.placement.node_selector, settings.resources
            deployment = server(selector=selector, gpus=gpus, cpu=str(asked.cpu), replicas=3)
            (pod,) = pods(deployment)
            for name in ("partial-node", "no-capacity-selector", "reservation-not-specific"):
                assert found(name, deployment) == [], (machine, way, gpus)
            # A class hides all but the GPU, which is in its name.
            expected = of_accelerator(facts.accelerator) if way == "compute-class" else (facts,)
            assert pod.machine in expected, (machine, way, gpus)
            if way != "compute-class":
                assert pod.gpu_nodes == settings.nodes
