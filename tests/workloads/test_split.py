"""Prefill apart from decode in a pod: servers on the loopback address, a router in front, one page of metrics, the order of the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from facts.machines import MACHINES
from settings.checks.declarations import declarations
from settings.checks.declared_server import DeclaredServer
from settings.checks.lessons import engine_problems, lessons
from settings.checks.machine import machine_problems
from settings.checks.shape import split_problems
from settings.checks.structure import structural_problems
from settings.derived.scaling import scaling_policy
from settings.derived.traffic import traffic
from settings.load import check
from settings.sections.server import Resources
from settings.shaped_engine import OWN_VARIABLES, shaped
from settings.stack import Settings
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import pod_of, server_args
from tests.workloads.test_router import build as with_router
from workloads.monitoring import server_scrape
from workloads.network_policies import flows
from workloads.server import rank_servers as program
from workloads.server import ranks
from workloads.server.pod_end import pod_end
from workloads.server.server import ServerArgs
from workloads.server.split import split

IMAGE = f"europe-west4-docker.pkg.dev/project/images/vllm-router:0.1.17@sha256:{'0' * 64}"
SHOWN = ("command", "args", "env", "ports", "resources", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle")
SHAPE = {"prefillGpus": 3, "decodeGpus": 5, "router": {"image": IMAGE}}


def settings(**server: Any) -> Settings:
    server = {"replicas": 1, "profile": "tuned", "shape": SHAPE, **server}
    return make_settings(server=server, endpoint={"kind": "leastRequest"})


def args(**server: Any) -> ServerArgs:
    return server_args(settings(**server))


def spec(**server: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod_of(args(**server))["spec"]
    return made


def test_engines_of_two_gpus_are_divided_between_the_sides() -> None:
    halves = args(
        engine={"dataParallelSize": 4, "tensorParallelSize": 2}, shape={**SHAPE, "prefillGpus": 2, "decodeGpus": 6}
    )
    assert halves.shape is not None
    sides = split(halves.shape, halves.engine.tensor_parallel_size)
    assert (sides.prefill, sides.decode) == ((8001,), (8002, 8003, 8004))


def test_the_engines_wait_for_the_router_as_long_as_its_streams_may_take() -> None:
    assert pod_end(spec()).stream_seconds == args().drain.stream_seconds


def test_both_sides_get_the_connector_and_each_its_role() -> None:
    engines = spec()["containers"][0]
    variables = {one["name"]: one["value"] for one in engines["env"]}
    assert variables["VLLM_SSM_CONV_STATE_LAYOUT"] == "DS"
    words = [*engines["command"][engines["command"].index("--") + 1 :], *engines["args"]]
    told = {}
    for rank in range(8):
        command = program.command_of(rank, 8, words, False, program.role_of(rank, 3))
        [option] = [word for word in command if word.startswith("--kv-transfer-config=")]
        transfer = json.loads(option.partition("=")[2])
        assert transfer["kv_connector"] == "NixlConnector"
        told[rank] = transfer["kv_role"], program.environment_of(rank, words, variables)
    assert [role for role, _ in told.values()] == ["kv_producer"] * 3 + ["kv_consumer"] * 5
    ports = [environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] for _, environment in told.values()]
    assert len(set(ports)) == 8
    assert {environment["VLLM_NIXL_SIDE_CHANNEL_HOST"] for _, environment in told.values()} == {"127.0.0.1"}


def test_a_dense_model_has_no_layout_of_states() -> None:
    one = settings()
    plain = shaped(one.serving.profile.engine, None)
    assert "VLLM_SSM_CONV_STATE_LAYOUT" not in plain.extra_env


def test_metrics_have_roles_and_the_router_s_series() -> None:
    page = '# TYPE a gauge\na{engine="0"} 1\n'
    samples = [line for line in program.merged([page] * 3, 1).splitlines() if line.startswith("a")]
    assert samples == [
        'a{engine="0",role="prefill"} 1',
        'a{engine="1",role="decode"} 1',
        'a{engine="2",role="decode"} 1',
    ]
    scrape = server_scrape("chat", 15, ranks.STATUS_PORT_NAME, has_pod_router=True)["endpoints"][0]
    assert "vllm_router_" in scrape["metricRelabeling"][0]["regex"]
    assert scrape["port"] == "status"


def test_nothing_but_routers_and_the_stack_s_own_pods_reaches_a_server_pod() -> None:
    one = settings(apiKeySecret="key")
    server = [flow for flow in flows(traffic(one)) if flow.to.name == "server"]
    assert {flow.from_.name: flow.port for flow in server} == {"router": 8000, "metric-collectors": 9256}


@pytest.mark.parametrize("secret", [{}, {"apiKeySecret": "key"}], ids=["open", "key"])
def test_the_routers_check_the_key_that_the_pods_router_only_sends(secret: dict[str, str]) -> None:
    server = {"replicas": 1, "profile": "tuned", "shape": SHAPE, **secret}
    recording = recorded_component(with_router, "known", server=server, endpoint={"kind": "leastRequest"})
    made = {key: manifest(one) for key, one in objects(recording).items()}
    assert {key: found for key, one in made.items() if (found := problems(one))} == {}
    pods = {app: made[f"Deployment/{app}"]["spec"]["template"] for app in ("qwen35-server", "router")}
    keyed = {
        container["name"]: "OPENAI_API_KEY" in container["command"]
        for pod in pods.values()
        for container in pod["spec"]["containers"]
        if any("api-key" in mount["name"] for mount in container["volumeMounts"])
    }
    assert keyed == ({"vllm": False, "vllm-router": True, "haproxy": False} if secret else {})
    [told] = [one["data"]["haproxy.cfg"] for one in made.values() if "haproxy.cfg" in one.get("data", {})]
    assert "path_beg /v1/" in told
    assert "GET uri /readiness" in told
    assert ("acl servers_key" in told) == bool(secret)
    assert "acl several" in told


def test_the_router_s_requests_fit_beside_the_servers() -> None:
    machine = MACHINES["g2-standard-24"]
    alone = Resources().of_pod(machine, 2)
    beside = Resources().of_pod(machine, 2, has_router=True)
    assert (alone.cpu - beside.cpu, alone.memory_gib - beside.memory_gib) == (4, 4)


@each_row(
    ("changed", "problem"),
    [
        ({"server": {"shape": {**SHAPE, "decodeGpus": 4}}}, "shape-gpus"),
        (
            {"server": {"engine": {"dataParallelSize": 4, "tensorParallelSize": 2}}},
            "shape-divides-an-engine",
        ),
        ({"server": {"rankPorts": True}}, "shape-with-rank-ports"),
        ({"server": {"engine": {"apiServerCount": 4}}}, "shape-with-api-servers"),
        ({"server": {"engine": {"extraArgs": ("--kv-transfer-config={}",)}}}, "shape-set-twice"),
        ({"server": {"engine": {"extraArgs": ("--kv_transfer_config={}",)}}}, "shape-set-twice"),
        ({"server": {"engine": {"extraArgs": ("--kv_transfer-config.kv_role=kv_both",)}}}, "shape-set-twice"),
        ({"server": {"engine": {"extraEnv": {"VLLM_SSM_CONV_STATE_LAYOUT": "SD"}}}}, "shape-set-twice"),
        ({"model": {"id": "Qwen/Qwen3.5-35B-A3B-FP8"}}, "shape-of-experts"),
        ({"endpoint": {}}, "shape-without-proxy"),
        ({"gateway": {"enabled": True}, "endpoint": {}}, "shape-without-proxy"),
        ({"rollout": {"engine": {"seed": 1}}}, "shape-of-a-canary"),
    ],
)
def test_what_cannot_be_split_is_refused(changed: dict[str, Any], problem: str) -> None:
    server = {"replicas": 1, "profile": "tuned", "shape": SHAPE, **changed.get("server", {})}
    sections = {"endpoint": {"kind": "leastRequest"}, **changed, "server": server}
    found = structural_problems(make_settings(**sections))
    assert problem in {one.id for one in found if one.severity == "error"}


def test_a_split_pod_gets_as_many_requests_as_decode_holds() -> None:
    one, together = settings(), make_settings(server={"replicas": 1, "profile": "tuned"})
    seats = 5 * (one.serving.engine.max_num_seqs or 0)
    assert seats < together.serving.concurrency_per_replica
    assert one.max_in_flight == seats
    scaled = scaling_policy(settings(replicas="external", scaling={"mode": "load", "max": 4}))
    assert scaled is not None
    assert (scaled.target_in_flight or 0) < seats
    many = settings(needs={"concurrencyPerReplica": seats + 1})
    assert many.max_in_flight == seats
    told = {found.id: found.severity for found in split_problems(many)}
    assert told["shape-below-load"] == "warning"
    assert "shape-below-load" not in {found.id for found in split_problems(one)}


def test_limits_count_the_engines_of_decode() -> None:
    one, above = settings(), settings(needs={"concurrencyPerReplica": 4_000})
    seats = str(one.seats)
    assert {found.id for found in check(above)} & {"shape-below-load", "sequences-below-load"} == {"shape-below-load"}
    assert declarations(above)["vllm-fleet.dev/concurrency-per-replica"] == seats
    crowded = DeclaredServer(one, engine=one.serving.engine.but({"maxNumSeqs": 100}))
    told = {found.id: found for found in engine_problems(one, crowded)}["sequences-below-load"]
    assert "5 engine(s) admit 500" in str(told.allowed)
    swept = make_settings(
        server={"replicas": 1, "profile": "tuned", "shape": SHAPE},
        endpoint={"kind": "leastRequest"},
        benchmark={"enabled": True, "concurrency": [2_000]},
    )
    own = settings(engine={"maxNumSeqs": None}, shape={**SHAPE, "prefillGpus": 7, "decodeGpus": 1})
    assert not [found for found in check(own) if found.blocks]
    [told] = [found for found in check(swept) if found.id == "sequences-below-load"]
    assert str(told.allowed).startswith(f"up to {seats}:")


@each_row(
    "server",
    [
        {"profile": "record"},
        {"engine": {"version": "0.18.1"}},
        {"image": {"tag": "v0.18.1"}},
        {"image": {"tag": "v0.18.1"}, "engine": {"version": "0.18.1"}},
    ],
)
def test_an_old_release_is_one_refusal(server: dict[str, Any]) -> None:
    refused = [found.id for found in check(settings(**server)) if found.blocks]
    assert refused == ["shape-release"]


def test_a_split_is_told_no_options_of_the_program() -> None:
    told = {one.id for one in check(settings(engine={"speculative": None}))}
    assert "profile-on-other-gpus" not in told


def test_without_drafts_the_arguments_say_whether_prefixes_are_cached() -> None:
    assert "--enable-prefix-caching" in spec(engine={"speculative": None})["containers"][0]["args"]
    assert "--no-enable-prefix-caching" in spec()["containers"][0]["args"]


def test_the_disk_of_a_node_has_room_for_the_router_s() -> None:
    def most(**sections: Any) -> int:
        told = machine_problems(make_settings(**sections))
        return int(next(one.allowed for one in told if "ephemeral" in one.subject).split(" ")[2])

    server = {"replicas": 1, "profile": "tuned", "resources": {"ephemeralStorageGib": 12_000}}
    alone = most(server=server)
    assert most(server={**server, "shape": SHAPE}, endpoint={"kind": "leastRequest"}) == alone - 1


def test_the_pod_as_it_is_rendered(golden: Callable[[str, str], None]) -> None:
    pod = spec()
    assert pod["containers"][1]["image"] == IMAGE
    shown = {
        container.pop("name"): {key: container[key] for key in SHOWN if key in container}
        for container in pod["containers"]
    }
    shown["vllm"]["env"] = [one for one in shown["vllm"]["env"] if one["name"] in OWN_VARIABLES]
    golden("preview/split-pod.yaml", yaml.safe_dump(shown, sort_keys=False, width=140))


def test_a_sound_shape_is_not_refused() -> None:
    one = settings()
    assert not [found for found in (*structural_problems(one), *lessons(one)) if found.severity == "error"]
