"""Verdicts that only made-up values allow: what a first `pulumi preview` could not judge is told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleet.preview.policy import Violation, start
from fleet.preview.record.recording import Recording
from tests.fleet.preview.sample_report import PROJECT, STACK, sample_recording

PACK = """\
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy


def kubeconfig_is_internal(args, report):
    if args.resource_type == "pulumi:providers:kubernetes" and args.props["kubeconfig"].startswith("https://10."):
        report("internal")


def twelve_replicas(args, report):
    if args.resource_type == "kubernetes:apps/v1:Deployment" and args.props["spec"]["replicas"] != 11:
        report("not eleven")


PolicyPack(
    name="unknowns",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(name="internal", description="It is internal.", validate=kubeconfig_is_internal),
        ResourceValidationPolicy(name="replicas", description="Eleven.", validate=twelve_replicas),
    ],
)
"""


def judge(
    folder: Path, first: Callable[[], Recording] | None
) -> tuple[tuple[Violation, ...], dict[str, tuple[str, ...]]]:
    (folder / "PulumiPolicy.yaml").write_text("runtime: python\nversion: 1.0.0\n")
    (folder / "__main__.py").write_text(PACK)
    with start(folder, project=PROJECT, stack=STACK) as run:
        violations, unreached = run.judge_and_compare(sample_recording("known"), first)
    return violations, dict(unreached)


def test_a_policy_that_reads_what_is_unknown_at_first_is_named_with_its_resources(tmp_path: Path) -> None:
    violations, unreached = judge(tmp_path, lambda: sample_recording("preview"))
    (provider,) = (one.urn for one in sample_recording().resources if one.name == "platform-kubernetes")
    assert unreached == {"internal": (provider,)}
    # Both are judged here, and neither verdict is lost or doubled.
    assert [(one.policy, one.level) for one in violations] == [("internal", "mandatory"), ("replicas", "mandatory")]


def test_where_nothing_is_unknown_every_verdict_is_reached(tmp_path: Path) -> None:
    _, unreached = judge(tmp_path, lambda: sample_recording("known"))
    assert unreached == {}


def test_without_a_first_preview_nothing_is_said_of_it(tmp_path: Path) -> None:
    violations, unreached = judge(tmp_path, None)
    assert unreached == {}
    assert len(violations) == 2
