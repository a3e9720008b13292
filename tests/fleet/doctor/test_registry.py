"""The image's digest, asked of a registry that answers by the media types that a request accepts.

Its rules: CNCF Distribution, registry/handlers/manifests.go, `GetManifest`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.doctor import questions
from fleet.doctor.judge import judge
from lab.simulators.local_server import Answer, Request, served
from tests.fleet.doctor.replies import FakeGcloud
from tests.fleet.doctor.test_judge import answered
from tests.support.rows import each_row
from tests.support.settings import make_settings

BY_TAG = make_settings(server={"replicas": 12, "engine": {"version": "0.33.0"}})
WHOLE, CHILD = (f"sha256:{digit * 64}" for digit in "12")


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", FakeGcloud(tmp_path / "bin").path)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token")


@pytest.mark.usefixtures("login")
@each_row(
    ("media_type", "of_platforms"),
    {
        "an OCI index": ("application/vnd.oci.image.index.v1+json", True),
        "a Docker manifest list": ("application/vnd.docker.distribution.manifest.list.v2+json", True),
        "an OCI manifest": ("application/vnd.oci.image.manifest.v1+json", False),
        "a Docker manifest": ("application/vnd.docker.distribution.manifest.v2+json", False),
    }.values(),
)
def test_the_digest_to_pin_is_that_of_all_platforms(
    media_type: str, of_platforms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def registry(request: Request) -> Answer:
        assert request.method == "HEAD"
        assert request.path == "/v2/fleet-tests/test-docker-hub/vllm/vllm-openai/manifests/v0.33.0"
        is_accepted = media_type in [kind.strip() for kind in (request.headers["Accept"] or "").split(",")]
        if not is_accepted and ".oci." in media_type:
            return Answer(404, b"")
        digest = CHILD if of_platforms and not is_accepted else WHOLE
        return Answer(200, b"", {"Docker-Content-Digest": digest})

    with served(registry) as port:
        monkeypatch.setattr(questions, "REGISTRY", f"http://127.0.0.1:{port}")
        found = questions.questions(BY_TAG)["images"]()
    assert (found["pull"], found["digest"]) == (200, WHOLE)
    by_name = {row.subject: row for row in judge(BY_TAG, answered(BY_TAG, images=found))}
    image = by_name["vllm/vllm-openai:v0.33.0"]
    assert (image.found, WHOLE in image.write) == (WHOLE, True)
