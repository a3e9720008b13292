"""The eight measurements that split a gateway's loss: one stack, a few of its settings changed from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from facts.figures import Routing

STREAM_INTERVAL: Final = 20
"""Tokens that a chunk gathers. With two tokens a step it makes a tenth of the chunks."""
REPEATS: Final = 3
"""Of each; fewer give no certificate and no useful interval."""
WORKLOAD: Final = "article"


class State(NamedTuple):
    """What a stack must be for a measurement."""

    routing: Routing
    stream_interval: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One measurement."""

    id: str
    """Also its folder."""
    title: str
    routing: Routing
    """As `Settings.routing` of the stack."""
    stream_interval: int | None = None
    """`server.engine.streamInterval`."""
    streamed: bool = True

    @property
    def has_gateway(self) -> bool:
        """Whether `gateway.enabled`."""
        return self.routing != "cluster-ip"

    @property
    def state(self) -> State:
        """What the stack must be for it; equal ones need no update between them."""
        return State(self.routing, self.stream_interval)

    def endpoint(self) -> dict[str, Any]:
        """Section `endpoint`."""
        return {"kind": "inferenceGateway" if self.routing in ("inference-gateway", "random-picks") else "clusterIp"}

    def gateway(self, given: dict[str, Any]) -> dict[str, Any]:
        """Section `gateway`, from the stack's own."""
        if not self.has_gateway:
            return {"enabled": False}
        picker = {key: value for key, value in given.get("epp", {}).items() if key != "picks"}
        if self.routing == "random-picks":
            picker["picks"] = "random"
        rest = {key: value for key, value in given.items() if key != "epp"}
        return {**rest, "enabled": True, **({"epp": picker} if picker and self.routing != "load-balancer" else {})}

    def engine(self, given: dict[str, Any]) -> dict[str, Any]:
        """`server.engine`, from the stack's own."""
        rest = {key: value for key, value in given.items() if key != "streamInterval"}
        return rest if self.stream_interval is None else {**rest, "streamInterval": self.stream_interval}


DIRECT: Final = Variant(id="direct", title="the Service, without a gateway", routing="cluster-ip")
DIRECT_WHOLE: Final = Variant(
    id="direct-not-streamed", title="the same, answers not streamed", routing="cluster-ip", streamed=False
)
SERVICE: Final = Variant(id="service", title="gateway to the Service, without a picker", routing="load-balancer")
RANDOM: Final = Variant(id="random-picks", title="gateway with a picker that picks at random", routing="random-picks")
GATEWAY: Final = Variant(id="gateway", title="gateway with the picker as it is", routing="inference-gateway")
GATEWAY_WHOLE: Final = Variant(
    id="gateway-not-streamed", title="the same, answers not streamed", routing="inference-gateway", streamed=False
)
GATEWAY_INTERVAL: Final = Variant(
    id=f"gateway-interval-{STREAM_INTERVAL}",
    title=f"gateway with the picker, {STREAM_INTERVAL} tokens a chunk",
    routing="inference-gateway",
    stream_interval=STREAM_INTERVAL,
)
DIRECT_INTERVAL: Final = Variant(
    id=f"direct-interval-{STREAM_INTERVAL}",
    title=f"the Service, {STREAM_INTERVAL} tokens a chunk",
    routing="cluster-ip",
    stream_interval=STREAM_INTERVAL,
)
VARIANTS: Final = (
    DIRECT,
    DIRECT_WHOLE,
    SERVICE,
    RANDOM,
    GATEWAY,
    GATEWAY_WHOLE,
    GATEWAY_INTERVAL,
    DIRECT_INTERVAL,
)
"""In an order that restarts the servers once, and once more when the stack is restored."""
