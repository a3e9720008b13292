"""The stand-in that runs the pods' own cache programs: real processes, a bucket on loopback, a world without a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cloud.compile_caches import CompileCaches
from lab.cloud.world import COMPILED
from lab.control_plane.api import CONFIG_MAP, Manifest
from tests.lab.cloud.fake_world import feed, make_world, on_node, until
from tests.support.settings import make_settings
from tests.workloads.test_compile_cache import pod as server_pod
from workloads.server import compile_cache

pytestmark = pytest.mark.slow


class Servers:
    """Server pods of one release."""

    def __init__(self) -> None:
        self.world, self.api = make_world(speed=600.0)
        name = compile_cache.config_map_name(make_settings().server.name)
        self.api.objects[CONFIG_MAP, name] = {"data": compile_cache.program()}
        self.caches = CompileCaches(self.world)

    def start(self, name: str, *, ready: bool = True) -> str:
        """A pod gets its node, and is Ready once its caches are looked for; what it found."""
        metadata = {"name": name, "namespace": "vllm", "uid": f"uid-{name}", "labels": {}}
        one: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": server_pod()}
        feed(self.world.pods, "added", on_node(one, "node", "Pending"))
        found: str = until(lambda: self._marks().get(name), f"{name} is marked")
        if ready:
            conditions = [{"type": "Ready", "status": "True"}]
            running = on_node(one, "node", conditions=conditions)
            feed(self.world.pods, "modified", running)
            until(lambda: self.caches.has_tried(running), f"{name} has stored")
        return found

    def _marks(self) -> dict[str, str]:
        return {name: body["metadata"]["annotations"][COMPILED] for _, name, body, _ in self.api.patches}


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    with made.caches:
        yield made


def test_the_second_server_finds_what_the_first_stored_and_half_of_it_is_nothing(servers: Servers) -> None:
    assert servers.start("first") == "cold"
    assert servers.start("second") == "warm"
    ((bucket, name),) = servers.caches.archives
    content = bucket.objects[name].content
    bucket.put(name, content[: len(content) // 2])
    assert servers.start("third") == "cold"


def test_a_server_that_was_never_ready_stores_nothing(servers: Servers) -> None:
    assert servers.start("first", ready=False) == "cold"
    assert servers.caches.archives == ()
    assert servers.start("second") == "cold"


def test_other_pods_are_left_alone(servers: Servers) -> None:
    feed(
        servers.world.pods,
        "added",
        on_node({"metadata": {"name": "a", "uid": "a"}, "spec": {"containers": []}}, "node"),
    )
    assert servers.start("server") == "cold"
    assert [name for _, name, _, _ in servers.api.patches] == ["server"]
