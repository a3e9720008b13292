"""What a change runs again and what becomes of the throughput: told from the stack's own settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.plan.benchmark_price import price_of
from fleet.plan.modelled import modelled
from fleet.preview.compare.changes import Changes
from fleet.preview.compare.compare import compare
from fleet.preview.compare.gpu_pods import gpu_pods
from fleet.preview.record.recording import RecordedResource
from fleet.preview.report.consequences import with_consequences
from fleet.report.words import format_usd
from settings.derived.figures import figures
from settings.stack import Settings
from tests.fleet.preview.fleets import ON_CLUSTER, ROOT, SCRIPT, SERVER, edited, recording
from tests.fleet.preview.sample_report import resource
from tests.support.settings import make_settings

PUBLISHED = {
    "usdPerHour": 391.32,
    "publishedFigure": "twelve nodes, the record (published, vLLM 0.18.0)",
    "publishedTotalTokensPerSecond": 1_103_941,
    "publishedOutputTokensPerSecond": 367_980,
}


def job(app: str, parallelism: int = 2) -> RecordedResource:
    inputs = {
        "metadata": {"name": f"{app}-1", "namespace": "vllm", "labels": {"app": app}},
        "spec": {"parallelism": parallelism, "completions": parallelism, "template": {"metadata": {}}},
    }
    return resource("kubernetes:batch/v1:Job", app, ROOT, inputs=inputs, provider=ON_CLUSTER)


def told(
    *changed: RecordedResource,
    old: tuple[RecordedResource, ...] = (),
    outputs: dict[str, Any] | None = None,
    settings: Settings | None = None,
) -> Changes:
    """What becomes of the fleet whose outputs are `PUBLISHED`, with the consequences of the new settings."""
    stack = settings or make_settings(benchmark={"enabled": True, "repeats": 3})
    now = recording(*changed, outputs=PUBLISHED if outputs is None else outputs)
    changes = compare(recording(*old, outputs=PUBLISHED), now)
    return with_consequences(changes, stack, now, figures(stack), modelled(stack))


def about(changes: Changes, *words: str) -> list[str]:
    return [line for line in changes.headline if all(word in line for word in words)]


@pytest.mark.parametrize(("was", "again"), [((job("vllm-benchmark", 1),), True), ((), False)])
def test_a_job_that_is_made_anew_runs_the_benchmark_and_tells_its_price(
    was: tuple[RecordedResource, ...], again: bool
) -> None:
    settings = make_settings(benchmark={"enabled": True, "repeats": 3})
    changes = told(job("vllm-benchmark"), old=was, settings=settings)
    [line] = about(changes, "runs the benchmark")
    assert ("again" in line) is again
    price = price_of(settings)
    for figure in ("3 runs", f"{price.minutes:.0f} minutes", format_usd(price.usd), price.machine_type):
        assert figure in line


def test_other_jobs_are_told_as_what_they_do() -> None:
    old, new = (job("weights-writer", 1), job("other", 1)), (job("weights-writer"), job("other"))
    changes = told(*new, old=old)
    assert about(changes, "weights download", "again")
    assert about(changes, "Job other-1", "again")


def test_a_download_of_another_release_is_a_job_of_another_name_and_runs_again() -> None:
    first, second = (replace(job("weights-writer"), name=name, urn=f"{ROOT}::{name}") for name in ("first", "second"))
    assert about(told(second, old=(first,)), "weights download", "again")
    assert not about(told(second), "weights download", "again")


def test_a_job_that_stays_runs_nothing() -> None:
    changes = told(job("vllm-benchmark"), edited(SERVER, "spec/replicas", 8), old=(job("vllm-benchmark"),))
    assert not about(changes, "benchmark")


def test_a_rate_that_nobody_published_becomes_the_models_estimate() -> None:
    settings = make_settings(server={"profile": "serve-chat", "replicas": 8})
    estimate = modelled(settings)
    assert estimate is not None
    unproven = {"usdPerHour": 261.81, "publishedFigure": "unproven: differs in max-model-len"}
    changes = told(edited(SERVER, "spec/replicas", 8), outputs=unproven, settings=settings)
    [line] = about(changes, "tok/s")
    for figure in ("estimate", estimate.performance.label):
        assert figure in line
    for value in (
        estimate.total_tokens_per_s.value,
        estimate.total_tokens_per_s.low,
        estimate.output_tokens_per_s.value,
    ):
        assert f"{value:,.0f}" in line


def test_a_published_rate_after_a_change_has_its_label() -> None:
    settings = make_settings(server={"profile": "record", "replicas": 1})
    found = figures(settings)
    assert found.match.figure is not None
    now = {**PUBLISHED, "publishedTotalTokensPerSecond": found.total_tokens_per_s, "publishedFigure": "one node (x)"}
    [line] = about(told(edited(SERVER, "spec/replicas", 1), outputs=now, settings=settings), "tok/s")
    assert f"{found.total_tokens_per_s:,} tok/s total" in line
    assert found.match.figure.label in line


def test_a_paused_fleet_has_no_rate() -> None:
    paused = make_settings(server={"profile": "record", "replicas": 0})
    changes = told(edited(SERVER, "spec/replicas", 0), outputs={"usdPerHour": 0.1}, settings=paused)
    assert about(changes, "paused")


def test_a_change_beside_the_servers_says_nothing_of_the_rate() -> None:
    assert not about(told(edited(SCRIPT, "data/run.sh", "false\n")), "tok/s")


def test_without_changes_nothing_is_added() -> None:
    assert told().headline == ("No resource changes",)


def test_who_owns_the_number_of_replicas_is_said_where_it_changes() -> None:
    spec = {"scaleTargetRef": {"name": "qwen35-server"}, "minReplicaCount": 2, "maxReplicaCount": 8}
    metadata = {"name": "qwen35-server", "namespace": "vllm"}
    scaler = resource(
        "kubernetes:keda.sh/v1alpha1:ScaledObject",
        "scaler",
        ROOT,
        inputs={"metadata": metadata, "spec": spec},
        provider=ON_CLUSTER,
    )
    (line,) = about(told(scaler), "autoscaler")
    assert "between 2 and 8" in line
    (line,) = about(told(old=(scaler,)), "autoscaler")
    assert "kubectl scale" in line
    assert [
        one.most for one in gpu_pods([*recording(edited(SERVER, "spec/replicas", None), scaler).resources]) if one.most
    ] == [8]


def test_another_release_of_vllm_is_an_upgrade_with_a_list() -> None:
    digest = f"sha256:{'0' * 64}"

    def server(tag: str) -> RecordedResource:
        spec = {"template": {"spec": {"containers": [{"name": "vllm", "image": f"r/vllm/vllm-openai:{tag}@{digest}"}]}}}
        inputs = {"metadata": {"name": "s", "namespace": "vllm"}, "spec": spec}
        return resource("kubernetes:apps/v1:Deployment", "s", ROOT, inputs=inputs, provider=ON_CLUSTER)

    settings = make_settings(server={"profile": "tuned", "image": {"tag": "v0.33.0", "digest": digest}})
    changes = told(server("v0.33.0"), old=(server("v0.18.1"),), settings=settings)
    assert about(changes, "vLLM 0.18.1 to 0.33.0", "driver 580")
    assert not about(changes, "vLLM 0.18.1 to 0.33.0", "prefix caching is on")
    assert not about(told(server("v0.18.1"), old=(server("v0.18.1"),)), "vLLM 0.18.1 to")
