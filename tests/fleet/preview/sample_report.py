"""A small recorded stack for the reports' tests: one of everything that they have to show."""

from __future__ import annotations

from typing import Any

from facts.finding import Finding
from fleet.preview.record.recording import Diagnostic, Mode, RecordedResource, Recording, urn_of
from fleet.preview.record.values import UNKNOWN, Secret
from fleet.preview.report.model import Policies, Report, build_report
from settings.derived.figures import figures
from settings.load import check
from settings.stack import Settings
from tests.support.settings import make_settings

PROJECT, STACK = "vllm-fleet", "test"
TOKEN = "hf_never_shown"


def resource(type_: str, name: str, parent: RecordedResource | None = None, **fields: Any) -> RecordedResource:
    """One registration below `parent`."""
    above = parent.urn if parent else ""
    return RecordedResource(
        urn=urn_of(stack=STACK, project=PROJECT, parent=above, type_=type_, name=name),
        type=type_,
        name=name,
        parent=above,
        custom=not type_.startswith("vllm-fleet:") and type_ != "pulumi:pulumi:Stack",
        **fields,
    )


def sample_recording(mode: Mode = "preview", *extra: RecordedResource) -> Recording:
    """Stack, two components, a provider, a group of APIs, a Deployment, a Secret."""
    unknown: Any = UNKNOWN if mode == "preview" else "https://10.0.0.2"
    stack = resource("pulumi:pulumi:Stack", f"{PROJECT}-{STACK}", source_position="fleet/preview/record/recorder.py:1")
    platform = resource("vllm-fleet:infra:OwnPlatform", "platform", stack, source_position="__main__.py:26")
    server = resource("vllm-fleet:workloads:Server", "server", stack, source_position="__main__.py:51")
    apis = [
        resource(
            "gcp:projects/service:Service",
            f"platform-{name}",
            platform,
            inputs={"service": f"{name}.googleapis.com"},
            source_position="infra/services.py:59",
        )
        for name in ("compute", "container", "iam", "logging")
    ]
    provider = resource(
        "pulumi:providers:kubernetes", "platform-kubernetes", platform, inputs={"kubeconfig": Secret(unknown)}
    )
    deployment = resource(
        "kubernetes:apps/v1:Deployment",
        "server-deployment",
        server,
        provider=f"{provider.urn}::{unknown}",
        dependencies=(provider.urn,),
        protect=True,
        inputs={
            "metadata": {"name": "qwen35-server"},
            "spec": {
                "replicas": 12,
                "template": {
                    "spec": {
                        "terminationGracePeriodSeconds": 15,
                        "nodeSelector": {"cloud.google.com/gke-spot": "true"},
                        "containers": [
                            {"name": "vllm", "resources": {"requests": {"nvidia.com/gpu": "8", "cpu": "160"}}},
                        ],
                    }
                },
            },
        },
        source_position="workloads/server/server.py:80",
    )
    secret = resource(
        "kubernetes:core/v1:Secret",
        "server-token",
        server,
        inputs={"metadata": {"name": "hf-token"}, "stringData": Secret({"token": TOKEN})},
        source_position="workloads/server/server.py:70",
    )
    reference = resource("pulumi:pulumi:StackReference", "org/vllm-fleet/base", stack)
    return Recording(
        project=PROJECT,
        stack=STACK,
        mode=mode,
        resources=(stack, platform, server, reference, *apis, provider, deployment, secret, *extra),
        outputs={"endpoint": "http://qwen35-server:8000", "kubeconfig": Secret(unknown), "address": unknown},
        diagnostics=(
            Diagnostic(severity="warning", message=f"the token {TOKEN} was seen", urn=deployment.urn),
            Diagnostic(severity="info", message="nobody needs to see this"),
        ),
        secrets=frozenset({TOKEN}),
    )


def sample_report(
    *,
    recording: Recording | None = None,
    policies: Policies | None = None,
    problems: tuple[Finding, ...] | None = None,
    stand_in_project: bool = False,
    **sections: Any,
) -> Report:
    """The report of a stack with those sections in its file."""
    settings: Settings = make_settings(STACK, **sections)
    return build_report(
        settings,
        recording or sample_recording(),
        figures(settings),
        problems=check(settings) if problems is None else problems,
        policies=policies or Policies(state="none"),
        stand_in_project=stand_in_project,
    )
