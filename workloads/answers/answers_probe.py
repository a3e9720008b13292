"""The answers probe: one small pod that asks the servers a question, as a client in the cluster does."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from facts.names import ANSWERS_PROBE_VCPUS
from settings.arguments import checked
from workloads import pod_programs
from workloads.names import PROBE_APP, labels, selector
from workloads.server import api_key
from workloads.server.server import Server
from workloads.small_pod import small_pod
from workloads.space import Space


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersProbeArgs:
    """Arguments of `AnswersProbe`."""

    space: Space
    """Namespace, labels, image source. The namespace's `Traffic` has `probe`, for account and network policy."""
    server: Server
    """The servers to ask."""
    model: str
    """Name under which the servers serve their model."""
    router: pulumi.Input[str] | None = None
    """URL of the routers' Service, to ask through it. None: the servers' own Service."""


class AnswersProbe(pulumi.ComponentResource):
    """One pod that asks one short question a minute and logs answers that fail, are wrong, or are not the usual one.

    It asks through the routers, where there are any, else through the Service, as a client in the cluster does; with a gateway, too.
    Without replicas it is refused at once: it starts none.
    """

    def __init__(self, name: str, args: AnswersProbeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:AnswersProbe", name, None, opts)
        server, marks = args.server, labels(args.space.labels, PROBE_APP)
        key = server.stored_key
        # A key that only Secret Manager knows is read from the mounted file, which follows its latest version.
        version = None if key is None or key.version is None else {"vllm-fleet.dev/api-key": key.version}
        store = server.key_store
        options: list[pulumi.Input[str]] = ["--url", args.router or server.endpoint, "--model", args.model]
        options += [] if store is None else ["--key-file", api_key.PATH]
        spec = small_pod(
            args.space,
            app=PROBE_APP,
            command=["python3", "-B", "-c", program(), *options],
            vcpus=ANSWERS_PROBE_VCPUS,
            mounts=() if store is None else (api_key.mount(),),
            volumes=() if store is None else (api_key.volume(store),),
        )
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata={"name": PROBE_APP, "namespace": args.space.namespace, "labels": marks},
            spec={
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"match_labels": selector(PROBE_APP)},
                "template": {
                    "metadata": {"labels": marks, **({} if version is None else {"annotations": version})},
                    "spec": spec,
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[] if key is None else [key.object]),
        )
        self.register_outputs({})


def program() -> str:
    """The probe's program, after what it imports."""
    return pod_programs.joined_program("answers/judgement.py", "answers/probe.py")
