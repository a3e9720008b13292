"""The server's pod as data: drain, probes, resources, volumes, the key, and what Kubernetes 1.36 says to it."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from facts.capacity import MAX_GRACE_SECONDS
from facts.engines import EXIT_SECONDS
from settings.checks.declarations import declarations
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import pod_of, server_args
from workloads import names
from workloads.server import api_key
from workloads.server.server import ServerArgs
from workloads.weights.weights import WeightsMount

MOUNT = WeightsMount(
    claim_name="weights-reader", mount_path="/weights", model_path="/weights/Qwen/Qwen3.5-27B-FP8", depends_on=()
)

CAPACITIES: dict[str, dict[str, Any]] = {
    "spot": {"mode": "spot"},
    "flex-start": {"mode": "flex-start", "runDurationSeconds": 86_400},
    "calendar": {"mode": "calendar", "reservation": "cal"},
    "reservation": {"mode": "reservation", "name": "prod", "commitment": "cud-1y"},
    "compute-class": {"mode": "compute-class"},
}
STEADY = CAPACITIES["reservation"]


def server(**fields: Any) -> dict[str, Any]:
    return {"replicas": 1, **fields}


PART = {"machine": "a3-highgpu-8g", "server": server(gpus=2, engine={"dataParallelSize": 2})}
ADAPTER = {"name": "support", "id": "my-team/support-lora", "revision": "0" * 40, "rank": 16}


def pod_args(settings: Settings, weights: WeightsMount | None = MOUNT) -> ServerArgs:
    # An Output without a value: no pod may depend on what it holds.
    key = settings.api_key_secret or (object.__new__(pulumi.Output) if settings.has_api_key else None)
    return server_args(settings, weights=weights, api_key=key)


def template(settings: Settings, weights: WeightsMount | None = MOUNT) -> dict[str, Any]:
    return pod_of(pod_args(settings, weights))


def the_container(settings: Settings, weights: WeightsMount | None = MOUNT) -> dict[str, Any]:
    (container,) = template(settings, weights)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def variables(settings: Settings, weights: WeightsMount | None = MOUNT) -> dict[str, str]:
    return {one["name"]: one["value"] for one in the_container(settings, weights)["env"]}


def as_pod(settings: Settings, weights: WeightsMount | None = MOUNT) -> dict[str, Any]:
    made = template(settings, weights)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server", **made["metadata"]}, "spec": made["spec"]}


@each_row(
    "sections",
    [
        *(
            {"capacity": capacity, "server": server(profile=profile)}
            for capacity in CAPACITIES.values()
            for profile in ("record", "serve-chat", "tuned")
        ),
        {"server": server(apiKeySecret="the-key")},
        {"apiKey": "x"},
        {"weights": {"source": "huggingface"}},
        {"weights": {"source": "huggingface", "tokenSecret": "hf"}},
        {"weights": {"source": "huggingface"}, "hfToken": "x"},
        {"zones": ["europe-west4-a", "europe-west4-b"]},
        PART,
    ],
)
def test_every_option_makes_a_valid_pod(sections: dict[str, Any]) -> None:
    settings = make_settings(**{"server": server(), **sections})
    weights = MOUNT if settings.weights.source == "hyperdisk" else None
    assert problems(as_pod(settings, weights)) == []


@pytest.mark.parametrize("capacity", CAPACITIES.values(), ids=CAPACITIES)
def test_streams_of_every_mode_have_as_long_at_a_planned_end(capacity: dict[str, Any]) -> None:
    assert pod_args(make_settings(capacity=capacity, server=server())).drain.stream_seconds == 120


@pytest.mark.parametrize(
    ("engine", "seconds", "sleep", "flag"),
    [
        # With one API server the engines finish what they have: sleep, time-out and the exit fit into the grace exactly.
        ({"apiServerCount": 1}, None, 30, MAX_GRACE_SECONDS - EXIT_SECONDS - 30),
        ({}, 400, 400, None),
        ({}, 5, 5, None),
        ({"apiServerCount": 1}, 90, 30, 60),
        ({"apiServerCount": 1}, 20, 20, None),
    ],
)
def test_a_stack_says_how_long_its_streams_may_continue(
    engine: dict[str, Any], seconds: int | None, sleep: int, flag: int | None
) -> None:
    said = {} if seconds is None else {"drainSeconds": seconds}
    settings = make_settings(capacity=STEADY, server=server(engine=engine, **said))
    container = the_container(settings)
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": sleep}}}
    found = [one for one in container["args"] if one.startswith("--shutdown-timeout")]
    assert found == ([] if flag is None else [f"--shutdown-timeout={flag}"])


@each_row(
    ("sections", "seconds"),
    [
        ({}, None),
        ({"gateway": {"enabled": True}}, "620"),  # Google's load balancer keeps idle connections for 600 s
        (
            {
                "gateway": {"enabled": True},
                "server": {"engine": {"extraEnv": {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "900"}}},
            },
            "900",
        ),
    ],
)
def test_idle_connections_outlive_the_load_balancers(sections: dict[str, Any], seconds: str | None) -> None:
    assert variables(make_settings(**sections)).get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE") == seconds


def test_no_variables_of_services_reach_the_engine() -> None:
    spec = template(make_settings(server=server()))["spec"]
    assert spec["enableServiceLinks"] is False
    assert spec["serviceAccountName"] == names.SERVER_ACCOUNT


def test_the_weights_are_read_only_twice_and_never_change_owner() -> None:
    spec = template(make_settings(server=server()))["spec"]
    (volume,) = (one for one in spec["volumes"] if one["name"] == "weights")
    (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "weights")
    assert volume["persistentVolumeClaim"] == {"claimName": "weights-reader", "readOnly": True}
    assert mount["readOnly"] is True
    # fsGroup would have the kubelet chown every file of the volume.
    assert "fsGroup" not in spec["securityContext"]


def test_every_cache_is_on_a_volume_and_every_mount_has_one() -> None:
    settings = make_settings(server=server(apiKeySecret="the-key"))
    spec = template(settings)["spec"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    mounts = {one["mountPath"]: one["name"] for one in spec["containers"][0]["volumeMounts"]}
    assert set(mounts.values()) == set(volumes)
    written = {
        value
        for name, value in variables(settings).items()
        if name == "HOME" or name.endswith(("_DIR", "_ROOT", "_HOME"))
    }
    assert len(written) > 5
    for path in written:
        assert any(path.startswith(f"{mount}/") and "emptyDir" in volumes[name] for mount, name in mounts.items()), path
    assert volumes[mounts["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}


def test_a_download_with_a_token_reads_it_from_a_file() -> None:
    settings = make_settings(server=server(), weights={"source": "huggingface"}, hfToken="hf_plain_text")
    spec = template(settings, None)["spec"]
    assert variables(settings, None)["HF_TOKEN_PATH"] == names.HF_TOKEN_PATH
    assert any(one.get("secret", {}).get("secretName") == names.HF_TOKEN_SECRET for one in spec["volumes"])
    assert "hf_plain_text" not in repr(spec)


@pytest.mark.parametrize(
    ("sections", "kind"),
    [({"server": server(apiKeySecret="the-key")}, "csi"), ({"server": server(), "apiKey": "plain-key"}, "secret")],
)
def test_an_api_key_reaches_vllm_as_a_file_and_never_as_text(sections: dict[str, Any], kind: str) -> None:
    settings = make_settings(**sections)
    container = the_container(settings)
    assert container["command"][0] == "python3"
    assert container["command"][3:] == ["VLLM_API_KEY", api_key.PATH, "vllm", "serve"]
    (volume,) = (one for one in template(settings)["spec"]["volumes"] if one["name"] == "api-key")
    assert kind in volume
    assert "VLLM_API_KEY" not in variables(settings)
    assert "plain-key" not in repr(template(settings))


def test_the_object_says_what_the_traffic_needs() -> None:
    settings = make_settings(server=server(needs={"contextTokens": 1_500, "concurrencyPerReplica": 1_000}))
    assert template(settings)["metadata"]["annotations"] == {
        "vllm-fleet.dev/profile": "record",
        "vllm-fleet.dev/model": "Qwen/Qwen3.5-27B-FP8",
        "vllm-fleet.dev/model-revision": "2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
        "vllm-fleet.dev/context-tokens": "1500",
        "vllm-fleet.dev/concurrency-per-replica": "1000",
        "vllm-fleet.dev/reproduces": "phases.mtp1-092",
        "vllm-fleet.dev/on-purpose": "deepgemm-accuracy,prefix-cache-never-hits",
    }


def test_replicas_spread_over_zones_only_where_there_are_several() -> None:
    assert "topologySpreadConstraints" not in template(make_settings(server=server()))["spec"]
    several = template(make_settings(server=server(), zones=["europe-west4-a", "europe-west4-b"]))["spec"]
    (spread,) = several["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_a_pod_says_which_lessons_its_profile_repeats_on_purpose() -> None:
    by_hand = declarations(make_settings(server={"replicas": 1, "engine": {"enablePrefixCaching": True}}))
    assert by_hand["vllm-fleet.dev/reproduces"] == "phases.mtp1-092"
    assert by_hand["vllm-fleet.dev/on-purpose"] == "deepgemm-accuracy"
    assert "vllm-fleet.dev/on-purpose" not in declarations(make_settings(server={"replicas": 1, "profile": "tuned"}))


def test_a_pod_on_part_of_another_machine_asks_for_its_share_of_it() -> None:
    container = the_container(make_settings(**PART))
    assert (
        container["resources"]["limits"]
        == container["resources"]["requests"]
        == {
            "cpu": "40",
            "memory": "250Gi",
            "ephemeral-storage": "500Gi",
            "nvidia.com/gpu": "2",
        }
    )


def test_adapters_are_served_from_the_folders_that_the_weights_have() -> None:
    settings = make_settings(model={"id": "Qwen/Qwen3.5-27B-FP8", "adapters": [ADAPTER]})
    told = the_container(settings)["args"]
    assert told[told.index("--lora-modules") + 1 :] == ["support=/weights/adapters/support/my-team/support-lora"]
