"""The server's pod as data. Creates no resource.

An option of the server is one `PodPart`, and the pod is the sum of its parts: a new option is a function here and a line in `parts`.
The capacity mode affects the pod only through `Placement`, the engine's flags only through `vllm_args`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from facts.engines import KEEP_ALIVE
from settings.derived.compile_cache import PersistedCache
from settings.derived.drain import Drain
from settings.sections.server import PodResources
from workloads import names, secret_files
from workloads.server import api_key, compile_cache, ranks, split, vllm_args
from workloads.weights import hf_token

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        ContainerPortArgsDict,
        EnvVarArgsDict,
        HTTPGetActionArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        ProbeArgsDict,
        ResourceRequirementsArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

    from settings.sections.secret_stores import SecretManagerSecret
    from settings.sections.shape import Shape
    from workloads.server.args import ServerArgs
    from workloads.weights.weights import WeightsMount


USER_ID: Final = 2000
"""User and group of the containers. Not root, and not a user of the image: the image's files are world-readable,
and all writes go to volumes. Source: the non-root target of vLLM's later images uses the same number."""

PROBE_PERIOD_SECONDS: Final = 10

API_KEY_VERSION: Final = "vllm-fleet.dev/api-key-version"
HF_TOKEN_VERSION: Final = "vllm-fleet.dev/hf-token-version"  # noqa: S105 - an annotation's name
DRIVER_LIBRARIES: Final = {
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
    "LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64/stubs",
}
"""Library path of the driver, which GKE mounts beside the image's libraries. Images of CUDA 12.8 and 12.9 do not search
it, and their linker cache has a compatibility library that a newer driver refuses ("Error 803"). Both folders replace
the image's value. Source: vllm-project/vllm#23935, Google's answer of 2025-09-16; gpustack/gpustack#4678; the
value in vLLM's own CUDA 13 image begins the same."""
_CACHE_MOUNT: Final[VolumeMountArgsDict] = {"name": "cache", "mount_path": compile_cache.PATH}
"""Volume for compiled kernels, graphs and other library caches. It outlives the container, not the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPart:
    """What one option adds to the pod. Everything that is not said otherwise is of the vLLM container."""

    volumes: Sequence[VolumeArgsDict] = ()
    """Of the pod."""
    mounts: Sequence[VolumeMountArgsDict] = ()
    env: Sequence[EnvVarArgsDict] = ()
    ports: Sequence[ContainerPortArgsDict] = ()
    flags: Sequence[str] = ()
    """Engine flags in addition to those of `ServerArgs.engine`."""
    launcher: Sequence[pulumi.Input[str]] = ()
    """What starts vLLM's own command, before it."""
    containers: Sequence[ContainerArgsDict] = ()
    """Further containers of the pod."""
    init_containers: Sequence[ContainerArgsDict] = ()
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Of the pod: a changed one restarts it."""


def parts(args: ServerArgs, key_version: pulumi.Input[str] | None = None) -> list[PodPart]:
    """The parts of this pod, in order. A later launcher starts an earlier one. With all of them the command is

    python3 keep_compile_cache.py restore ... -- python3 -c with_api_key.py VLLM_API_KEY FILE python3 rank_servers.py ... -- vllm serve
    """
    chosen = [scratch(args.resources), driver()]
    if args.keep_alive_seconds is not None and KEEP_ALIVE not in args.engine.extra_env:
        chosen.append(PodPart(env=[{"name": KEEP_ALIVE, "value": str(args.keep_alive_seconds)}]))
    if args.shape is not None:
        chosen.append(disaggregated_prefill(args, args.shape))
    elif args.rank_ports:
        chosen.append(server_per_rank(args))
    else:
        chosen.append(
            PodPart(ports=[{"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"}])
        )
    if args.weights is not None:
        chosen.append(mounted(args.weights))
    elif args.hf_token is not None:
        chosen.append(downloaded(args.hf_token))
    if args.api_key is not None:
        chosen.append(required_key(args.api_key, key_version))
    if args.compile_cache is not None:
        chosen.append(persisted_caches(args.compile_cache, args))
    return chosen


def scratch(resources: PodResources) -> PodPart:
    """Shared memory, and the only writable paths: on local SSDs or the boot disk, counted against the pod's ephemeral storage."""
    return PodPart(
        volumes=[
            {"name": "tmp", "empty_dir": {}},
            {"name": "cache", "empty_dir": {}},
            {"name": "shm", "empty_dir": {"medium": "Memory", "size_limit": f"{resources.shm_gib}Gi"}},
        ],
        mounts=[{"name": "tmp", "mount_path": "/tmp"}, _CACHE_MOUNT, {"name": "shm", "mount_path": "/dev/shm"}],
        env=vllm_args.writable_environment(compile_cache.PATH),
    )


def driver() -> PodPart:
    """The GPU driver's libraries."""
    return PodPart(env=[{"name": name, "value": value} for name, value in DRIVER_LIBRARIES.items()])


def server_per_rank(args: ServerArgs) -> PodPart:
    """An API server, with a port of its own, for each data-parallel rank: vLLM's external load balancing."""
    # Without one of them, the ranks of a mixture of experts answer nothing.
    leave = [] if args.shares_experts else [f"--leave={ranks.LEAVE_SECONDS}"]
    return PodPart(
        volumes=[ranks.volume(args.name)],
        mounts=[ranks.mount()],
        ports=ranks.container_ports(len(args.ports)),
        launcher=ranks.serving(len(args.ports), experts=args.shares_experts, options=leave),
    )


def disaggregated_prefill(args: ServerArgs, shape: Shape) -> PodPart:
    """Disaggregated prefill: prefill engines and decode engines, with vllm-router as a sidecar, which has the API's port."""
    engines = split.split(shape, args.engine.tensor_parallel_size)
    router = split.container(
        shape,
        engines,
        args.drain,
        startup_minutes=args.startup_minutes,
        period_seconds=PROBE_PERIOD_SECONDS,
        has_key=args.api_key is not None,
    )
    options = split.options(engines, args.drain)
    return PodPart(
        volumes=[ranks.volume(args.name), split.volume()],
        mounts=[ranks.mount()],
        ports=[ranks.status_port()],
        flags=[split.HOST],
        launcher=ranks.serving(args.engine.data_parallel_size, options=options),
        containers=[router],
    )


def mounted(weights: WeightsMount) -> PodPart:
    """Weights on a read-only volume."""
    return PodPart(volumes=[weights.volume()], mounts=[weights.volume_mount()])


def downloaded(token: secret_files.Stored) -> PodPart:
    """The token of a gated model that each replica downloads."""
    return PodPart(
        volumes=[hf_token.token_volume(token.store)],
        mounts=[hf_token.token_mount()],
        env=[{"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH}],
        annotations={} if token.version is None else {HF_TOKEN_VERSION: token.version},
    )


def required_key(
    key: pulumi.Output[str] | SecretManagerSecret | secret_files.Stored, version: pulumi.Input[str] | None
) -> PodPart:
    """An API key that vLLM requires on /v1, read once at its start."""
    return PodPart(
        volumes=[api_key.volume(secret_files.store_of(key))],
        mounts=[api_key.mount()],
        launcher=api_key.command_with_key("VLLM_API_KEY", []),
        annotations={} if version is None else {API_KEY_VERSION: version},
    )


def persisted_caches(cache: PersistedCache, args: ServerArgs) -> PodPart:
    """Compile caches that are restored from a bucket and stored there."""
    return PodPart(
        volumes=compile_cache.volumes(args.name),
        mounts=[compile_cache.program_mount()],
        init_containers=[compile_cache.upload_sidecar(cache, args.image, _CACHE_MOUNT, args.status_port)],
        launcher=compile_cache.restoring(cache),
    )


def pod_template(args: ServerArgs, key_version: pulumi.Input[str] | None = None) -> PodTemplateSpecArgsDict:
    """The Deployment's pod template. Secrets are read once, at start, so a new version changes the template."""
    every = parts(args, key_version)
    annotations: dict[str, pulumi.Input[str]] = {**args.annotations}
    for part in every:
        annotations |= part.annotations
    return {
        "metadata": {"labels": names.own_labels(args.name), "annotations": annotations},
        "spec": pod_spec(args, every),
    }


def pod_spec(args: ServerArgs, every: Sequence[PodPart]) -> PodSpecArgsDict:
    """The pod spec."""
    placement = args.placement
    tolerations: Any = [dict(toleration) for toleration in placement.tolerations]
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
            # No fsGroup: the kubelet would change owners on the weights volume, which is read-only.
            # The writable volumes are emptyDirs, which any user can write.
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [container(args, every), *(one for part in every for one in part.containers)],
        "volumes": [volume for part in every for volume in part.volumes],
    }
    if init_containers := [one for part in every for one in part.init_containers]:
        spec["init_containers"] = init_containers
    if len(placement.zones) > 1:
        # Spread over the zones with the weights; a replica in a fuller zone is better than none.
        spec["topology_spread_constraints"] = [
            {
                "max_skew": 1,
                "topology_key": "topology.kubernetes.io/zone",
                "when_unsatisfiable": "ScheduleAnyway",
                "label_selector": {"match_labels": names.selector(args.name)},
            }
        ]
    return spec


def container(args: ServerArgs, every: Sequence[PodPart]) -> ContainerArgsDict:
    """The vLLM container."""
    command: list[pulumi.Input[str]] = [*vllm_args.COMMAND]
    for part in every:
        command = [*part.launcher, *command]
    health = probes(
        args.startup_minutes, args.drain, ranks.STATUS_PORT_NAME if args.has_rank_servers else names.HTTP_PORT_NAME
    )
    spec: ContainerArgsDict = {
        "name": "vllm",
        "image": args.image,
        "command": command,
        "args": arguments(args, every),
        "env": environment(args, every),
        "ports": [port for part in every for port in part.ports],
        "resources": resources(args.resources, args.placement.gpus),
        "security_context": {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        },
        "volume_mounts": [mount for part in every for mount in part.mounts],
        "startup_probe": health["startup"],
        "readiness_probe": health["readiness"],
        "liveness_probe": health["liveness"],
    }
    if args.drain.pre_stop_seconds > 0:
        # The kubelet implements the sleep; no shell is needed.
        spec["lifecycle"] = {"pre_stop": {"sleep": {"seconds": args.drain.pre_stop_seconds}}}
    return spec


def arguments(args: ServerArgs, every: Sequence[PodPart]) -> list[str]:
    """The engine's flags, for the mounted model or for the repository at its pinned revision."""
    model, weights = args.model, args.weights
    flags = vllm_args.args(
        args.engine,
        model_path=model.id if weights is None else weights.model_path,
        served_model_name=model.id,
        adapter_paths=model.adapter_paths("" if weights is None else weights.mount_path),
        port=names.HTTP_PORT if args.shape is None else names.FIRST_ENGINE_PORT,
    )
    if (seconds := args.drain.after_signal_seconds) > 0:
        # Running requests finish after SIGTERM; by default vLLM aborts them. With several API servers it has no effect.
        flags.append(f"--shutdown-timeout={seconds}")
    # After the model and its name.
    flags[2:2] = [flag for part in every for flag in part.flags]
    return [*flags, f"--revision={model.revision}"] if weights is None else flags


def environment(args: ServerArgs, every: Sequence[PodPart]) -> list[EnvVarArgsDict]:
    """Environment variables: vLLM's behavior, and what the parts need."""
    behavior = vllm_args.env(
        args.engine, ready_timeout_seconds=args.startup_minutes * 60, offline=args.weights is not None
    )
    return [*behavior, *(variable for part in every for variable in part.env)]


def resources(asked: PodResources, gpus: int) -> ResourceRequirementsArgsDict:
    """Equal requests and limits: required for GPUs; Autopilot would change the rest, which would be a permanent diff."""
    amounts = {
        "cpu": str(asked.cpu),
        "memory": f"{asked.memory_gib}Gi",
        "ephemeral-storage": f"{asked.ephemeral_storage_gib}Gi",
        "nvidia.com/gpu": str(gpus),
    }
    return {"requests": amounts, "limits": dict(amounts)}


def probes(startup_minutes: int, drain: Drain, port: str) -> dict[str, ProbeArgsDict]:
    """Probes: startup by budget, readiness within 30 s, liveness late, because a restart costs minutes of all GPUs."""
    get: HTTPGetActionArgsDict = {"path": "/health", "port": port}
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
            # /health is slow on a busy API server; a pod removed too soon shifts its 2,000
            # requests to the others.
            "timeout_seconds": 10,
            "failure_threshold": 3,
        },
        "liveness": {
            "http_get": get,
            "period_seconds": PROBE_PERIOD_SECONDS,
            "timeout_seconds": 10,
            # Two minutes, for a server that hangs. A dead engine ends the process by itself.
            "failure_threshold": 12,
            # A hung server does not drain: do not wait for the whole grace period.
            "termination_grace_period_seconds": min(30, max(1, drain.grace_seconds)),
        },
    }
