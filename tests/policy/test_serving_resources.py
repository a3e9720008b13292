from __future__ import annotations

import pytest

from tests.policy.samples import DIGEST, IMAGE, NEEDS, found, kubernetes, only, server

COMMIT = "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"


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


def test_the_public_image_is_a_server_without_a_command() -> None:
    arguments = ("--model=Qwen/Qwen3.5-27B-FP8", "--max-model-len=131072")
    bare = server(command=(), args=arguments, image="vllm/vllm-openai:v0.18.1")
    assert only("image-not-pinned", bare)
    assert only("context-far-above-need", bare)
    assert found("image-not-pinned", server(command=(), args=arguments, image="org/app:v1")) == []
