"""Facade `CapacityLadder`: the ComputeClass of servers with capacity `ladder`."""

# No `from __future__ import annotations` in a facade: the schema is made of its annotations, and a text is none.

from typing import NotRequired, TypedDict, cast

import pulumi

from facades.inputs import EXISTING_CLUSTER, PACKAGE, on_callers_cluster, settings_of
from settings.sections.capacity import Ladder, ladder_class
from workloads.capacity_ladder import CapacityLadder as Component
from workloads.capacity_ladder import CapacityLadderArgs as ComponentArgs


class CapacityLadderArgs(TypedDict):
    """Inputs of `CapacityLadder`."""

    zones: list[str]
    """Zones of the nodes, all of one region, e.g. ["europe-west4-b"]: those that have the weights."""
    namespace: str
    """Namespace of the servers; the class is named after it, because classes belong to the whole cluster."""
    machine: str
    """Machine type of the nodes, e.g. "g2-standard-12": its GPUs are the bill."""
    reservation: NotRequired[str]
    """First rung: the name of a specific reservation in these zones. Default: no such rung."""
    run_duration_seconds: NotRequired[int]
    """Second rung, flex-start: how long a node may live, 600 to 604800 seconds. Default: 604800."""
    spot_rung: NotRequired[bool]
    """Whether Spot is the last rung. Default: true."""
    replicas: NotRequired[int]
    """Fewest server pods on the class, e.g. the `replicas` of its `VllmServer`. Two or more return to an earlier rung when it has capacity,
    one at a time; one alone would be down meanwhile. Default: 1."""


class CapacityLadder(pulumi.ComponentResource):
    """A ComputeClass that tries a reservation, then flex-start, then Spot. Needs your cluster's Kubernetes provider.

    GKE adds the kind ComputeClass some time after it made a cluster: let a class on a new cluster depend on the weights.
    """

    class_name: pulumi.Output[str]
    """Name of the ComputeClass. A `VllmServer` in the same namespace on the same machine selects it by itself."""

    def __init__(self, name: str, args: CapacityLadderArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        on_callers_cluster("CapacityLadder", opts)
        fixed = {**EXISTING_CLUSTER, "capacity": {"mode": "ladder"}}
        settings = settings_of("CapacityLadder", name, args, fixed, elsewhere=("weights", "server"))
        super().__init__(f"{PACKAGE}:index:CapacityLadder", name, None, opts)
        class_name = ladder_class(settings.namespace, settings.machine)
        made = Component(
            f"{name}-ladder",
            ComponentArgs(
                class_name=class_name,
                ladder=cast(Ladder, settings.capacity),
                zones=settings.zones,
                machine=settings.machine,
                returns=settings.returns,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        # By the URN, which a preview knows: who uses the name comes after the class.
        self.class_name = made.compute_class.urn.apply(lambda _: class_name)
        self.register_outputs({"className": self.class_name})
