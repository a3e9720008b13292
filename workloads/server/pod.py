"""The server's pod, as data: what it runs, mounts, asks of its node, and how it starts and ends. No resource is made here.

The capacity mode reaches the pod through its `Placement` alone, the engine's flags through `vllm_args` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from facts.engines import EXIT_SECONDS
from settings.arguments import within_limits
from settings.sections.server import Image, PodResources, Resources, Server
from workloads import names, secret_files
from workloads.manifest import Manifest
from workloads.server import api_key, compile_cache, vllm_args
from workloads.space import Space
from workloads.weights import hf_token

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        HTTPGetActionArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        ResourceRequirementsArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

    from settings.sections.capacity import Placement
    from settings.sections.engine import Engine
    from settings.sections.model import Model
    from settings.sections.secret_stores import SecretManagerSecret, SecretStore
    from workloads.weights.weights import WeightsMount

USER_ID: Final = 2000
"""User and group of the containers. Not root, and not a user of the image: everything the image runs is world-readable,
and everything it writes is on a volume. Source: the non-root target of vLLM's later images uses the same number."""

PROVISIONING_MINUTES: Final = 15
"""Minutes a node may take to appear. Measured: 5 to 6 in the article; the rest is for zones that are nearly full."""

PROBE_PERIOD_SECONDS: Final = 10
LONGEST_DRAIN_SECONDS: Final = 120
"""Sleep before the stop signal where several API servers would cut the streams at it. Measured: a request of the record
takes 24 s on average, and 11.6 s + 512 x 0.073 s = 49 s at both 99th percentiles; twice that, rounded."""

API_KEY_VERSION: Final = "vllm-fleet.dev/api-key-version"
HF_TOKEN_VERSION: Final = "vllm-fleet.dev/hf-token-version"  # noqa: S105 - an annotation's name
DRIVER_LIBRARIES: Final = {
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
    "LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64/stubs",
}
"""Where programs and linkers find the driver, which GKE puts beside the image's own libraries. Images of CUDA 12.8 and 12.9 do not look
there, and their linker's cache has a compatibility library instead, which a newer driver refuses ("Error 803"). Both folders replace
all that the image's own variable has. Source: vllm-project/vllm#23935, Google's answer of 2025-09-16; gpustack/gpustack#4678; the
variable of vLLM's own image of CUDA 13 begins the same."""

_TMP, _CACHE, _SHM = "tmp", "cache", "shm"
_CACHE_PATH: Final = compile_cache.PATH
"""Compiled kernels and graphs, and everything else that libraries keep. Outlives the container, not the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a server pod ends: sleep while endpoints go, then the stop signal, then the kill."""

    pre_stop_seconds: int
    """Before the stop signal; requests in flight go on."""
    grace_seconds: int
    """From the beginning to the kill, the sleep included."""

    @property
    def after_signal_seconds(self) -> int:
        """What is left for running requests after the stop signal, where vLLM can use it."""
        return max(0, self.grace_seconds - self.pre_stop_seconds - EXIT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """What the pod of a `Server` follows from. Plain types are validated here; an `Input` is only known later."""

    space: Space
    """Namespace of every object, with `service_account` in it; labels; where the image comes from."""
    name: str
    """Name of Deployment and Service, and value of the label `app`: 1 to 40 lower-case letters, digits and dashes."""
    engine: Engine
    """vLLM's flags, typed: how it splits over the pod's GPUs, what it caches, what it answers."""
    model: Model
    """The model: Hugging Face repository, pinned revision, size."""
    placement: Placement
    """Which nodes, and how long they leave a pod that ends: `placement(Spot(mode="spot"), namespace, zones)` of
    settings/sections/capacity.py."""
    image: Image = field(default_factory=Image)
    """The vLLM image: repository on Docker Hub, tag, digest. Its version is the engine's."""
    weights: WeightsMount | None = None
    """How the pod mounts the weights: `Weights.mount`. None: each replica downloads them for itself."""
    hf_token: SecretStore | None = None
    """Store of the Hugging Face token: `Weights.token`. For a gated model that each replica downloads for itself."""
    hf_token_version: pulumi.Input[str] | None = None
    """What changes with that token, so that the pods start anew: `Weights.token_version`."""
    api_key: pulumi.Output[str] | SecretManagerSecret | None = None
    """The key that clients must show under /v1, or the Secret Manager secret that holds it. None: nobody is asked."""
    compile_cache: compile_cache.KeptCache | None = None
    """Where the pods keep what they compile for those that start later. None: each compiles for itself."""
    service_account: str = names.SERVER_ACCOUNT
    """Kubernetes service account of the pods. With `compile_cache` one that only pods of its key have."""
    resources: Resources = field(default_factory=Resources)
    """CPU, memory, disk and shared memory of the pod, in GiB. Default: by the placement's machine and GPUs."""
    startup_minutes: int = 30
    """Minutes a pod may take from start to ready, 5 to 120. The article measured about 10."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What Deployment and pods say about themselves, for policies and for whoever reads the cluster: of the traffic at least
    `vllm-fleet.dev/context-tokens` and `vllm-fleet.dev/concurrency-per-replica`."""

    def __post_init__(self) -> None:
        within_limits(self, Server, ("name", "startup_minutes"))
        if self.engine.gpus > self.placement.gpus:
            raise ValueError(
                f"ServerArgs.engine uses {self.engine.gpus} GPUs; a pod has {self.placement.gpus}: lower its data or tensor parallel size"
            )

    @property
    def key_store(self) -> SecretStore | None:
        """Where the pod finds the API key; None where nobody is asked for one."""
        return None if self.api_key is None else secret_files.store_of(self.api_key)

    @property
    def asks_for(self) -> PodResources:
        """What the pod asks of its node beside GPUs."""
        return self.resources.of_pod(self.placement.machine, self.placement.gpus)

    @property
    def drain(self) -> Drain:
        """How the pod ends."""
        return drain(self.placement, self.engine)


def drain(placement: Placement, engine: Engine) -> Drain:
    """The drain that fits the capacity's grace and the number of API servers; docs/decisions/0010 has the reasons."""
    grace, pre_stop = placement.grace_seconds, placement.pre_stop_seconds
    if engine.api_servers > 1:
        # The parent stops its API servers first, so nothing is delivered after the signal: all draining is sleep.
        pre_stop = max(pre_stop, min(LONGEST_DRAIN_SECONDS, grace - EXIT_SECONDS))
    # The API refuses a sleep longer than the grace.
    return Drain(pre_stop_seconds=max(0, min(pre_stop, grace - 1)), grace_seconds=grace)


def pod_template(args: ServerPod, api_key_version: pulumi.Input[str] | None = None) -> PodTemplateSpecArgsDict:
    """The Deployment's pod template. Secrets are read once, at the start, so another version of one makes other pods."""
    versions = {
        API_KEY_VERSION: api_key_version,
        HF_TOKEN_VERSION: args.hf_token_version if args.weights is None else None,
    }
    annotations = {**args.annotations, **{name: version for name, version in versions.items() if version is not None}}
    return {
        "metadata": {"labels": names.labels(args.space.labels, args.name), "annotations": annotations},
        "spec": pod_spec(args),
    }


def pod_spec(args: ServerPod) -> PodSpecArgsDict:
    """The pod: one container on the placement's machine."""
    placement = args.placement
    tolerations: Manifest = [dict(toleration) for toleration in placement.tolerations]
    spec: PodSpecArgsDict = {
        "service_account_name": args.service_account,
        "automount_service_account_token": False,
        # A Service called `vllm` would inject VLLM_PORT=tcp://..., which vLLM refuses to start with.
        "enable_service_links": False,
        "node_selector": dict(placement.node_selector),
        "tolerations": tolerations,
        "termination_grace_period_seconds": args.drain.grace_seconds,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": USER_ID,
            "run_as_group": USER_ID,
            # No fsGroup: the kubelet would change the owner of every file on the weights volume, which is read-only.
            # The writable volumes are emptyDirs, open to any user.
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [container(args)],
        "volumes": volumes(args),
    }
    if args.compile_cache is not None:
        image = args.space.image(args.image.reference)
        spec["init_containers"] = [compile_cache.saver(args.compile_cache, image, mounts(args))]
    if len(placement.zones) > 1:
        # Evenly over the zones that have the weights, but a replica in the wrong zone beats none.
        spec["topology_spread_constraints"] = [
            {
                "max_skew": 1,
                "topology_key": "topology.kubernetes.io/zone",
                "when_unsatisfiable": "ScheduleAnyway",
                "label_selector": {"match_labels": names.selector(args.name)},
            }
        ]
    return spec


def container(args: ServerPod) -> ContainerArgsDict:
    """The vLLM container."""
    sleep = args.drain.pre_stop_seconds
    health = probes(args.startup_minutes, args.drain)
    spec: ContainerArgsDict = {
        "name": "vllm",
        "image": args.space.image(args.image.reference),
        "command": command(args),
        "args": arguments(args),
        "env": environment(args),
        "ports": [{"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": resources(args.asks_for, args.placement.gpus),
        "security_context": {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        },
        "volume_mounts": mounts(args),
        "startup_probe": health["startup"],
        "readiness_probe": health["readiness"],
        "liveness_probe": health["liveness"],
    }
    if sleep > 0:
        # The kubelet sleeps by itself; the image needs no shell for it.
        spec["lifecycle"] = {"pre_stop": {"sleep": {"seconds": sleep}}}
    return spec


def engine(args: ServerPod) -> Engine:
    """The engine, with a shutdown time-out where one works and none is chosen: with a single API server."""
    chosen, left = args.engine, args.drain.after_signal_seconds
    if chosen.shutdown_timeout_seconds is None and chosen.api_servers == 1 and left > 0:
        return chosen.but({"shutdownTimeoutSeconds": left})
    return chosen


def arguments(args: ServerPod) -> list[str]:
    """The engine's flags, for the mounted model or for the repository at its pinned revision."""
    model, weights = args.model, args.weights
    path = model.id if weights is None else weights.model_path
    flags = vllm_args.args(engine(args), model_path=path, served_model_name=model.id)
    return [*flags, f"--revision={model.revision}"] if weights is None else flags


def command(args: ServerPod) -> list[pulumi.Input[str]]:
    """The entry point, started by the programs that restore the caches and read the key's file."""
    plain = vllm_args.command(args.engine)
    if args.key_store is not None:
        plain = api_key.command_with_key("VLLM_API_KEY", plain)
    return [*plain] if args.compile_cache is None else compile_cache.restoring(args.compile_cache, plain)


def environment(args: ServerPod) -> list[EnvVarArgsDict]:
    """Environment variables: what vLLM shall do, and where it may write."""
    offline = args.weights is not None
    variables = [
        *vllm_args.env(args.engine, ready_timeout_seconds=args.startup_minutes * 60, offline=offline),
        *vllm_args.writable_environment(_CACHE_PATH),
    ]
    variables += [{"name": name, "value": value} for name, value in DRIVER_LIBRARIES.items()]
    if not offline and args.hf_token is not None:
        variables.append({"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH})
    return variables


def resources(asked: PodResources, gpus: int) -> ResourceRequirementsArgsDict:
    """Requests and limits, equal: GPUs must be, and Autopilot would make the rest so and leave a difference."""
    amounts = {
        "cpu": str(asked.cpu),
        "memory": f"{asked.memory_gib}Gi",
        "ephemeral-storage": f"{asked.ephemeral_storage_gib}Gi",
        "nvidia.com/gpu": str(gpus),
    }
    return {"requests": amounts, "limits": dict(amounts)}


def probes(startup_minutes: int, drain: Drain) -> dict[str, ProbeArgsDict]:
    """Start-up by budget; readiness by half a minute; liveness late, because a restart costs minutes of all the pod's GPUs."""
    get: HTTPGetActionArgsDict = {"path": "/health", "port": names.HTTP_PORT_NAME}
    return {
        "startup": {
            "http_get": get,
            "period_seconds": PROBE_PERIOD_SECONDS,
            "timeout_seconds": 5,
            "failure_threshold": startup_minutes * 60 // PROBE_PERIOD_SECONDS,
        },
        "readiness": {
            "http_get": get,
            "period_seconds": PROBE_PERIOD_SECONDS,
            # /health waits its turn among the streams of a busy API server; a pod taken out too soon hands its 2,000
            # requests to the others.
            "timeout_seconds": 10,
            "failure_threshold": 3,
        },
        "liveness": {
            "http_get": get,
            "period_seconds": PROBE_PERIOD_SECONDS,
            "timeout_seconds": 10,
            # Two minutes. A dead engine ends the process by itself; this is for a server that hangs.
            "failure_threshold": 12,
            # A hung server will not drain: no use in waiting the whole grace for it.
            "termination_grace_period_seconds": min(30, max(1, drain.grace_seconds)),
        },
    }


def volumes(args: ServerPod) -> list[VolumeArgsDict]:
    """Weights, shared memory, and the only places where anything can be written."""
    found: list[VolumeArgsDict] = [
        # Both on the node's local SSDs or its boot disk, counted against the pod's ephemeral storage.
        {"name": _TMP, "empty_dir": {}},
        {"name": _CACHE, "empty_dir": {}},
        {"name": _SHM, "empty_dir": {"medium": "Memory", "size_limit": f"{args.asks_for.shm_gib}Gi"}},
    ]
    if args.weights is not None:
        found.append(args.weights.volume())
    elif args.hf_token is not None:
        found.append(hf_token.token_volume(args.hf_token))
    if args.key_store is not None:
        found.append(api_key.volume(args.key_store))
    if args.compile_cache is not None:
        found.append(compile_cache.volume())
    return found


def mounts(args: ServerPod) -> list[VolumeMountArgsDict]:
    """Where the volumes are in the container."""
    found: list[VolumeMountArgsDict] = [
        {"name": _TMP, "mount_path": "/tmp"},
        {"name": _CACHE, "mount_path": _CACHE_PATH},
        {"name": _SHM, "mount_path": "/dev/shm"},
    ]
    if args.weights is not None:
        found.append(args.weights.volume_mount())
    elif args.hf_token is not None:
        found.append(hf_token.token_mount())
    if args.key_store is not None:
        found.append(api_key.mount())
    return found
