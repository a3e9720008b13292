from __future__ import annotations

from lab.cloud.kubelet_stages import LEADER, LEADER_FLAG
from lab.cloud.standby import POOL_LABEL, Standby
from tests.lab.cloud.fake_world import feed, make_world, on_node, pod, until


def test_of_two_endpoint_pickers_one_leads_and_the_other_when_it_is_gone() -> None:
    world, api = make_world()
    pickers = []
    for name in ("first", "second"):
        one = on_node(pod(name, {"cpu": "1"}), "node")
        one["metadata"]["labels"] = {POOL_LABEL: "pool"}
        one["spec"]["containers"][0]["args"] = [LEADER_FLAG]
        pickers.append(one)

    def leaders() -> list[str]:
        return [str(name) for _, name, body, _ in api.patches if LEADER in body["metadata"]["annotations"]]

    with Standby(world):
        for one in pickers:
            feed(world.pods, "modified", one)
        until(leaders)
        assert leaders() == ["first"]
        feed(world.pods, "deleted", pickers[0])
        until(lambda: leaders() == ["first", "second"])
