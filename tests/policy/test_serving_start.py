from __future__ import annotations

from typing import Any

import pytest

from tests.policy.samples import DIGEST, ENVIRONMENT, IMAGE, NEEDS, found, kubernetes, only, server

OLD = f"vllm/vllm-openai:v0.18.0{DIGEST}"
COMMIT = "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"


def waiting(seconds: str | None, **probe: int) -> Any:
    env = {key: value for key, value in ENVIRONMENT.items() if key != "VLLM_ENGINE_READY_TIMEOUT_S"}
    if seconds is not None:
        env["VLLM_ENGINE_READY_TIMEOUT_S"] = seconds
    return server(env=env, container={"startupProbe": probe} if probe else None)


def test_the_release_that_costs_accuracy_is_found() -> None:
    assert "the image is v0.18.0 and VLLM_USE_DEEP_GEMM is not 0" in only("deepgemm-accuracy", server(image=OLD))


def test_the_release_is_right_with_deepgemm_off_on_other_gpus_and_for_other_models() -> None:
    assert found("deepgemm-accuracy", server(image=OLD, env={"VLLM_USE_DEEP_GEMM": "0"})) == []
    assert found("deepgemm-accuracy", server(image=OLD, selector={})) == []
    assert found("deepgemm-accuracy", server(image=OLD, args=("meta-llama/Llama-3.1-8B",))) == []
    assert found("deepgemm-accuracy", server()) == []


def test_only_0_switches_deepgemm_off() -> None:
    assert only("deepgemm-accuracy", server(image=OLD, env={"VLLM_USE_DEEP_GEMM": "1"}))


@pytest.mark.parametrize("tag", [":v0.19.0", ":nightly", "", ":0.17.2-cu130"])
def test_a_release_that_the_rules_do_not_know_is_told(tag: str) -> None:
    assert only("image-not-checked", server(image=f"vllm/vllm-openai{tag}{DIGEST}"))


@pytest.mark.parametrize("tag", ["v0.18.1", "0.18.0", "v0.18.1-cu130"])
def test_the_releases_that_the_rules_know_are_not(tag: str) -> None:
    assert found("image-not-checked", server(image=f"vllm/vllm-openai:{tag}{DIGEST}")) == []


def test_options_that_vllm_does_not_have_are_found_one_by_one() -> None:
    wrong = found("flags-vllm-refuses", server("--disable-log-requests", "--enable-chunked-prefill=true"))
    assert [message.splitlines()[0].partition(": ")[2] for message in wrong] == [
        "vLLM has no option --disable-log-requests",
        "--enable-chunked-prefill is a switch and takes no value",
    ]
    assert found("flags-vllm-refuses", server("--enable-chunked-prefill")) == []


def test_options_of_another_release_are_not_judged() -> None:
    assert found("flags-vllm-refuses", server("--brand-new=1", image="vllm/vllm-openai:v0.25.0")) == []


def test_a_server_image_needs_a_digest() -> None:
    assert "the image is vllm/vllm-openai:v0.18.1, without" in only(
        "image-not-pinned", server(image="vllm/vllm-openai:v0.18.1")
    )
    assert found("image-not-pinned", server()) == []


def test_only_servers_need_a_digest() -> None:
    assert found("image-not-pinned", server(command=("sleep",), image="busybox:1.37")) == []


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("busybox:latest", "whose tag is latest"),
        ("busybox", "which means the tag latest"),
        ("registry:5000/busybox", "which means the tag latest"),
        ("", "which means the tag latest"),
    ],
)
def test_latest_is_found_in_every_container(image: str, said: str) -> None:
    assert said in only("image-latest", server(image=image))
    initialising = server(spec={"initContainers": [{"name": "first", "image": image}]})
    assert "spec.template.spec.initContainers[0].image" in only("image-latest", initialising)


@pytest.mark.parametrize("image", ["busybox:1.37", f"busybox{DIGEST}", f"busybox:latest{DIGEST}", IMAGE])
def test_a_release_or_a_digest_is_not_latest(image: str) -> None:
    assert found("image-latest", server(image=image)) == []


def test_a_job_and_a_cron_job_are_looked_into() -> None:
    pod = {"spec": {"containers": [{"name": "x", "image": "busybox"}]}}
    job = kubernetes("batch/v1:Job", {"metadata": {"name": "j"}, "spec": {"template": pod}})
    cron = kubernetes("batch/v1:CronJob", {"spec": {"jobTemplate": {"spec": {"template": pod}}}})
    bare = kubernetes("core/v1:Pod", pod)
    assert only("image-latest", job).startswith("spec.template.spec.containers[0].image is busybox")
    assert only("image-latest", cron).startswith("spec.jobTemplate.spec.template.spec.containers[0].image")
    assert only("image-latest", bare).startswith("spec.containers[0].image")


@pytest.mark.parametrize("flags", [(), ("--revision=main",), (f"--revision={COMMIT[:12]}",)])
def test_a_downloaded_model_needs_a_commit(flags: tuple[str, ...]) -> None:
    message = only("model-not-pinned", server(args=("Qwen/Qwen3.5-27B-FP8", *flags)))
    assert "which is not a commit" in message


def test_a_pinned_or_mounted_model_needs_none() -> None:
    assert found("model-not-pinned", server(args=("Qwen/Qwen3.5-27B-FP8", f"--revision={COMMIT}"))) == []
    for model in ("/weights/m", "gs://bucket/m", "./m", "$(MODEL)"):
        assert found("model-not-pinned", server(args=(model,))) == []


def test_undeclared_needs_are_an_advice() -> None:
    message = only("needs-not-declared", server(annotations={"vllm-fleet.dev/context-tokens": "1536"}))
    assert "vllm-fleet.dev/concurrency-per-replica" in message.splitlines()[0]
    assert "context-tokens" not in message.splitlines()[0]
    assert found("needs-not-declared", server()) == []


def test_needs_may_stand_on_the_workload_itself() -> None:
    subject = server(annotations={})
    subject.props["metadata"]["annotations"] = NEEDS  # type: ignore[index]
    assert found("needs-not-declared", subject) == []


def test_starved_engines_are_found() -> None:
    message = only("cpu-starves-engines", server(cpu="16"))
    assert "16 CPUs for 8 engine(s) and 8 API server(s), which need 18" in message
    assert found("cpu-starves-engines", server(cpu="18")) == []
    assert only("cpu-starves-engines", server(cpu="17500m"))


def test_a_server_that_asks_for_no_cpu_is_found() -> None:
    subject = server()
    resources = subject.props["spec"]["template"]["spec"]["containers"][0]["resources"]
    for part in resources.values():
        del part["cpu"]
    assert "no CPU is requested" in only("cpu-starves-engines", subject)


def test_one_api_server_needs_less() -> None:
    assert found("cpu-starves-engines", server("--api-server-count=1", cpu="13")) == []
    assert only("cpu-starves-engines", server("--api-server-count=1", cpu="12"))


def test_a_team_measures_its_own_cores() -> None:
    assert only("cpu-starves-engines", server(cpu="18"), coresPerEngine=2.0)
    assert found("cpu-starves-engines", server(cpu="9"), coresPerEngine=0.5, coresPerApiServer=0.5) == []


@pytest.mark.parametrize(
    ("seconds", "probe", "early"),
    [
        ("1800", {"periodSeconds": 10, "failureThreshold": 180}, False),
        ("1799", {"periodSeconds": 10, "failureThreshold": 180}, True),
        (None, {"periodSeconds": 10, "failureThreshold": 60}, False),
        (None, {"periodSeconds": 10, "failureThreshold": 61}, True),
        (None, {"failureThreshold": 60}, False),
        (None, {"failureThreshold": 60, "initialDelaySeconds": 1}, True),
    ],
)
def test_engines_are_waited_for_as_long_as_the_probe_waits(seconds: Any, probe: Any, early: bool) -> None:
    assert bool(found("engine-ready-timeout", waiting(seconds, **probe))) is early


def test_the_default_is_named_as_one() -> None:
    message = only("engine-ready-timeout", waiting(None, failureThreshold=180, periodSeconds=10))
    assert "is 600, the default, and the start-up probe allows 1800 seconds" in message
    assert "Fix: set the variable VLLM_ENGINE_READY_TIMEOUT_S to 1800" in message


def test_a_time_out_from_elsewhere_is_not_known() -> None:
    elsewhere = [{"name": "VLLM_ENGINE_READY_TIMEOUT_S", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]
    assert found("engine-ready-timeout", server(container={"env": elsewhere})) == []


def test_without_a_start_up_probe_there_is_no_budget() -> None:
    assert found("engine-ready-timeout", server(env={}, container={"startupProbe": None})) == []


def test_the_public_image_is_a_server_without_a_command() -> None:
    arguments = ("--model=Qwen/Qwen3.5-27B-FP8", "--max-model-len=131072")
    bare = server(command=(), args=arguments, image="vllm/vllm-openai:v0.18.1")
    assert only("image-not-pinned", bare)
    assert only("context-far-above-need", bare)
    assert found("image-not-pinned", server(command=(), args=arguments, image="org/app:v1")) == []
