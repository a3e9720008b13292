"""The server's pod template as data: containers, volumes, resources, probes and shutdown. Creates no resource.

The capacity mode affects the pod only through `Placement`, the engine's flags only through `vllm_args`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from facts.engines import KEEP_ALIVE
from facts.finding import Finding
from facts.models import CATALOGUE
from settings.arguments import refuse
from settings.checks.declared_server import EngineServer
from settings.checks.model import memory_problems
from settings.checks.parsers import unregistered
from settings.checks.ranks import rank_port_problems
from settings.checks.shape import shape_problems
from settings.derived.drain import Drain, drain
from settings.sections.capacity import Placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.secret_stores import SecretManagerSecret, SecretStore
from settings.sections.server import Image, PodResources, Resources
from settings.sections.shape import Shape
from settings.serving import version_problems
from workloads import names, secret_files
from workloads.manifest import Manifest
from workloads.server import api_key, compile_cache, ranks, split, vllm_args
from workloads.space import Space
from workloads.weights import hf_token
from workloads.weights.weights import WeightsMount

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

_TMP, _CACHE, _SHM = "tmp", "cache", "shm"
_CACHE_PATH: Final = compile_cache.PATH
"""Volume for compiled kernels, graphs and other library caches. It outlives the container, not the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """Arguments that determine the pod of a `Server`. Plain types are validated here; an `Input` is only known later."""

    space: Space
    """Namespace of every object, which contains `service_account`; labels; image source."""
    name: str
    """Name of Deployment and Service, and value of label `app`: 1 to 40 lower-case letters, digits and dashes."""
    engine: Engine
    """vLLM's flags."""
    model: Model
    """The model: Hugging Face repository, pinned revision, size, LoRA adapters, for which `engine` needs `enable_lora`."""
    placement: Placement
    """Node selection and termination grace: `placement(Spot(mode="spot"), namespace, zones)` of
    settings/sections/capacity.py."""
    image: Image = field(default_factory=Image)
    """The vLLM image: repository on Docker Hub, tag, digest. Its version is the engine's."""
    weights: WeightsMount | None = None
    """Mount of the weights: `Weights.mount`. None: each replica downloads them."""
    hf_token: SecretStore | None = None
    """Store of the Hugging Face token: `Weights.token`. For a gated model that each replica downloads."""
    hf_token_version: pulumi.Input[str] | None = None
    """Changes with the token and restarts the pods: `Weights.token_version`."""
    api_key: pulumi.Output[str] | SecretManagerSecret | None = None
    """API key required on /v1, or the Secret Manager secret with it. None: no key required."""
    compile_cache: compile_cache.KeptCache | None = None
    """Compile cache shared with later pods. None: each pod compiles."""
    service_account: str = names.SERVER_ACCOUNT
    """Kubernetes service account of the pods. With `compile_cache`, an account used only by pods of its key."""
    resources: Resources = field(default_factory=Resources)
    """CPU, memory, disk and shared memory of the pod, in GiB. Default: from the placement's machine and GPUs."""
    startup_minutes: int = 30
    """Minutes from start to ready, 5 to 120. The article measured about 10."""
    drain_seconds: int | None = None
    """Seconds that requests in flight have when a server is stopped, 5 to 590. None: 120 with several API servers; with one, until they
    are done, within the placement's grace period."""
    keep_alive_seconds: int | None = None
    """Seconds that the server keeps an idle connection: 620 behind Google's load balancer (`facts.engines.BEHIND_BALANCER_SECONDS`). None:
    vLLM's 5, or that of `engine.extra_env`, which wins."""
    rank_ports: bool = False
    """Whether each data-parallel rank is served on a port of its own; for a gateway or router that chooses among them."""
    shape: Shape | None = None
    """Engines that only read prompts and engines that only answer, with a router in the pod; `engine` then has the connector
    (`settings.shaped_engine.shaped`). The pods' router sends the engines the API key and checks none: routers in front of the pods do.
    None: every engine does both."""
    shares_experts: bool = False
    """Whether the model's experts are spread over the ranks, which then step together: a mixture of experts. For `rank_ports`."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of Deployment and pods that declare the expected traffic, for policies: at least
    `vllm-fleet.dev/context-tokens` and `vllm-fleet.dev/concurrency-per-replica`."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons for flags of `engine` that lessons accept with one, by `--flag`: an annotation of the Deployment, so that a new text restarts
    no pod."""

    def __post_init__(self) -> None:
        gpu, gpus, listed = self.placement.machine.gpu, self.placement.gpus, CATALOGUE.get(self.model.id)
        # The catalogue's shape is of its commit; what another one holds is not known here.
        shape = listed.shape if listed and listed.revision == self.model.revision else None
        server = EngineServer(engine=self.engine, model=self.model, shape=shape, tag=self.image.tag, gpu=gpu, gpus=gpus)
        version = self.engine.version
        refuse(
            self,
            (
                *self._contradictions(),
                *version_problems("engine.version", self.engine, self.image.tag, "image.tag"),
                *unregistered("engine.tool_call_parser", self.engine.tool_call_parser, "tools", version),
                *unregistered("engine.reasoning_parser", self.engine.reasoning_parser, "reasoning", version),
                *memory_problems("engine", server, self.placement.machine),
                *rank_port_problems("rank_ports", self.rank_ports, self.engine),
                *shape_problems("shape", self.shape, self.engine, shape, rank_ports=self.rank_ports),
            ),
        )

    def _contradictions(self) -> Iterator[Finding]:
        if self.engine.gpus > self.placement.gpus:
            yield Finding(
                id="wrong-argument",
                subject="engine",
                found=f"{self.engine.gpus} GPUs",
                allowed=f"at most {self.placement.gpus}, the GPUs of a pod",
                why="a pod is on one machine",
                write="a lower data_parallel_size or tensor_parallel_size, or a placement with more GPUs",
            )
        if self.model.adapters and (self.weights is None or not self.engine.enable_lora):
            yield Finding(
                id="wrong-argument",
                subject="model",
                found=f"{len(self.model.adapters)} adapters",
                allowed="adapters with weights and an engine with enable_lora",
                why="adapters are on the weights' volume, and vLLM keeps no slots for them by default",
                write="weights=Weights(...).mount and engine=Engine(enable_lora=True, max_loras=..., max_lora_rank=...)",
            )

    @property
    def key_store(self) -> SecretStore | None:
        """Store of the API key; None without a key."""
        return None if self.api_key is None else secret_files.store_of(self.api_key)

    @property
    def asks_for(self) -> PodResources:
        """Resource requests of the pod except GPUs."""
        downloaded_gb = self.model.size_gb if self.weights is None else 0.0
        router = None if self.shape is None else self.shape.router
        return self.resources.of_pod(
            self.placement.machine, self.placement.gpus, downloaded_gb=downloaded_gb, router=router
        )

    @property
    def drain(self) -> Drain:
        """Shutdown of the pod."""
        servers = 1 if self.has_rank_servers else self.engine.api_servers
        return drain(self.placement.grace_seconds, self.drain_seconds, servers)

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of the API: one, or one per rank."""
        return tuple(range(names.HTTP_PORT, names.HTTP_PORT + self._ranks))

    @property
    def status_port(self) -> int:
        """Port with the health and the metrics of the whole pod."""
        return names.STATUS_PORT if self.has_rank_servers else names.HTTP_PORT

    @property
    def has_rank_servers(self) -> bool:
        """Whether each rank is a server of its own."""
        return self.rank_ports or self.shape is not None

    @property
    def split(self) -> split.Split | None:
        """The servers of a pod with a shape."""
        return None if self.shape is None else split.split(self.shape, self.engine.tensor_parallel_size)

    @property
    def _ranks(self) -> int:
        return self.engine.data_parallel_size if self.rank_ports else 1


def pod_template(args: ServerPod, api_key_version: pulumi.Input[str] | None = None) -> PodTemplateSpecArgsDict:
    """The Deployment's pod template. Secrets are read once, at start, so a new version changes the template."""
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
    """The pod spec."""
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
            # No fsGroup: the kubelet would change owners on the weights volume, which is read-only.
            # The writable volumes are emptyDirs, which any user can write.
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [container(args), *router(args)],
        "volumes": volumes(args),
    }
    if args.compile_cache is not None:
        image = args.space.image(args.image.reference)
        spec["init_containers"] = [compile_cache.saver(args.compile_cache, image, mounts(args), args.status_port)]
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


def container(args: ServerPod) -> ContainerArgsDict:
    """The vLLM container."""
    sleep = args.drain.pre_stop_seconds
    health = probes(
        args.startup_minutes, args.drain, ranks.STATUS_PORT_NAME if args.has_rank_servers else names.HTTP_PORT_NAME
    )
    spec: ContainerArgsDict = {
        "name": "vllm",
        "image": args.space.image(args.image.reference),
        "command": command(args),
        "args": arguments(args),
        "env": environment(args),
        "ports": container_ports(args),
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
        # The kubelet implements the sleep; no shell is needed.
        spec["lifecycle"] = {"pre_stop": {"sleep": {"seconds": sleep}}}
    return spec


def container_ports(args: ServerPod) -> list[ContainerPortArgsDict]:
    """Ports of the vLLM container: with a shape, the API's is the router's."""
    if args.shape is not None:
        return [ranks.status_port()]
    if args.rank_ports:
        return ranks.container_ports(len(args.ports))
    return [{"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"}]


def router(args: ServerPod) -> list[ContainerArgsDict]:
    """The router of a pod with a shape."""
    if args.shape is None or args.split is None:
        return []
    minutes = args.startup_minutes
    return [
        split.container(
            args.shape,
            args.split,
            args.drain,
            startup_minutes=minutes,
            period_seconds=PROBE_PERIOD_SECONDS,
            has_key=args.api_key is not None,
        )
    ]


def engine(args: ServerPod) -> Engine:
    """The engine, with a default shutdown timeout if it has a single API server."""
    chosen, left = args.engine, args.drain.after_signal_seconds
    if chosen.shutdown_timeout_seconds is None and left > 0:
        return chosen.but({"shutdownTimeoutSeconds": left})
    return chosen


def arguments(args: ServerPod) -> list[str]:
    """The engine's flags, for the mounted model or for the repository at its pinned revision."""
    model, weights = args.model, args.weights
    path = model.id if weights is None else weights.model_path
    mount = "" if weights is None else weights.mount_path
    flags = vllm_args.args(
        engine(args),
        model_path=path,
        served_model_name=model.id,
        adapter_paths=model.adapter_paths(mount),
        port=names.HTTP_PORT if args.shape is None else names.FIRST_ENGINE_PORT,
    )
    if args.shape is not None:
        flags.insert(2, split.HOST)
    return [*flags, f"--revision={model.revision}"] if weights is None else flags


def command(args: ServerPod) -> list[pulumi.Input[str]]:
    """The entry point, wrapped by the programs that restore the caches and read the API key."""
    plain = vllm_args.command(args.engine)
    if args.rank_ports:
        # Without one of them, ranks that share experts answer nothing.
        leave = [] if args.shares_experts else [f"--leave={ranks.LEAVE_SECONDS}"]
        plain = ranks.serving(plain, len(args.ports), experts=args.shares_experts, options=leave)
    if args.split is not None:
        plain = ranks.serving(plain, args.engine.data_parallel_size, options=split.options(args.split, args.drain))
    if args.api_key is not None:
        plain = api_key.command_with_key("VLLM_API_KEY", plain)
    return [*plain] if args.compile_cache is None else compile_cache.restoring(args.compile_cache, plain)


def environment(args: ServerPod) -> list[EnvVarArgsDict]:
    """Environment variables: vLLM's behavior and its writable paths."""
    offline = args.weights is not None
    variables = [
        *vllm_args.env(args.engine, ready_timeout_seconds=args.startup_minutes * 60, offline=offline),
        *vllm_args.writable_environment(_CACHE_PATH),
    ]
    variables += [{"name": name, "value": value} for name, value in DRIVER_LIBRARIES.items()]
    if args.keep_alive_seconds is not None and KEEP_ALIVE not in args.engine.extra_env:
        variables.append({"name": KEEP_ALIVE, "value": str(args.keep_alive_seconds)})
    if not offline and args.hf_token is not None:
        variables.append({"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH})
    return variables


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


def volumes(args: ServerPod) -> list[VolumeArgsDict]:
    """Weights, shared memory, and the only writable paths."""
    pod_volumes: list[VolumeArgsDict] = [
        # Both on local SSDs or the boot disk, counted against the pod's ephemeral storage.
        {"name": _TMP, "empty_dir": {}},
        {"name": _CACHE, "empty_dir": {}},
        {"name": _SHM, "empty_dir": {"medium": "Memory", "size_limit": f"{args.asks_for.shm_gib}Gi"}},
    ]
    if args.weights is not None:
        pod_volumes.append(args.weights.volume())
    elif args.hf_token is not None:
        pod_volumes.append(hf_token.token_volume(args.hf_token))
    if args.key_store is not None:
        pod_volumes.append(api_key.volume(args.key_store))
    if args.compile_cache is not None:
        pod_volumes += compile_cache.volumes(args.name)
    if args.has_rank_servers:
        pod_volumes.append(ranks.volume(args.name))
    if args.shape is not None:
        pod_volumes.append(split.volume())
    return pod_volumes


def mounts(args: ServerPod) -> list[VolumeMountArgsDict]:
    """Volume mounts of the container."""
    volume_mounts: list[VolumeMountArgsDict] = [
        {"name": _TMP, "mount_path": "/tmp"},
        {"name": _CACHE, "mount_path": _CACHE_PATH},
        {"name": _SHM, "mount_path": "/dev/shm"},
    ]
    if args.weights is not None:
        volume_mounts.append(args.weights.volume_mount())
    elif args.hf_token is not None:
        volume_mounts.append(hf_token.token_mount())
    if args.api_key is not None:
        volume_mounts.append(api_key.mount())
    if args.compile_cache is not None:
        volume_mounts.append(compile_cache.program_mount())
    if args.has_rank_servers:
        volume_mounts.append(ranks.mount())
    return volume_mounts
