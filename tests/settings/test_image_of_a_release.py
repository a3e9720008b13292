"""Which image a stack runs, from the release it names and the image it names."""

from __future__ import annotations

import pytest

from facts.releases import ARTICLES, CURRENT, find
from settings.checks.lessons import lessons
from settings.load import check
from settings.problems import SettingsError
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings

DIGEST = f"sha256:{'0' * 64}"


def stack(profile: str = "serve-chat", **server: object) -> Settings:
    made = make_settings(server={"profile": profile, **server})
    _ = made.serving
    return made


@pytest.mark.parametrize(("profile", "version"), [("serve-chat", CURRENT), ("tuned", CURRENT), ("record", ARTICLES)])
def test_a_stack_that_names_nothing_runs_its_profiles_release(profile: str, version: str) -> None:
    image = stack(profile).serving.image
    assert (image.tag, image.digest) == (f"v{version}", find(version).digest)


def test_a_release_without_a_published_digest_is_pulled_by_its_tag() -> None:
    by_tag = stack()
    assert by_tag.serving.image.reference == f"vllm/vllm-openai:v{CURRENT}"
    pinned = stack(image={"digest": DIGEST})
    assert pinned.serving.image.reference == f"vllm/vllm-openai:v{CURRENT}@{DIGEST}"
    published = stack(engine={"version": "0.18.1"}).serving.image
    assert published.digest == find("0.18.1").digest


def test_the_release_names_the_tag_and_the_tag_the_release() -> None:
    by_version = stack(engine={"version": "0.33.0"}, image={"digest": DIGEST}).serving
    by_tag = stack(image={"tag": "v0.33.0", "digest": DIGEST}).serving
    assert by_version.image == by_tag.image
    assert by_version.engine == by_tag.engine
    assert by_tag.engine.version == "0.33.0"
    unread = stack(image={"tag": "v0.25.0", "digest": DIGEST}).serving.engine
    assert unread.release.table == "0.18.1"


@each_row(
    ("server", "id_"),
    [
        # A tag runs no digest of another.
        ({"image": {"repository": "team/vllm"}}, "image-without-digest"),
        ({"image": {"tag": "v0.18.1-cu130"}}, "image-without-digest"),
        # A release that was not read needs an image by hand.
        ({"engine": {"version": "0.25.0"}}, "unknown-release"),
        ({"engine": {"version": "0.18.1"}, "image": {"tag": "v0.33.0", "digest": DIGEST}}, "version-not-the-images"),
    ],
)
def test_release_tag_and_digest_are_of_one_image(server: dict[str, object], id_: str) -> None:
    with pytest.raises(SettingsError) as caught:
        stack(**server)
    assert [problem.id for problem in caught.value.problems] == [id_]


def test_a_profile_on_a_release_that_it_does_not_hold_for_is_a_finding() -> None:
    image = {"digest": DIGEST}
    found = {one.id: one.severity for one in lessons(stack("record", engine={"version": "0.33.0"}, image=image))}
    assert found["profile-of-another-release"] == "warning"
    assert found["prefix-caching-with-mtp"] == "error"
    held = {one.id for one in lessons(stack("tuned", engine={"version": "0.33.0"}, image=image))}
    assert not {"profile-of-another-release", "prefix-caching-with-mtp"} & held


@pytest.mark.parametrize("old", [{}, {"image": {"tag": "v0.18.0"}}])
def test_what_a_release_of_the_article_is_told_to_write_has_no_further_finding(old: dict[str, object]) -> None:
    told = {one.id: one.write for one in lessons(stack("record", **old))}
    written = told.get("deepgemm-accuracy") or told["profile-of-another-release"]
    assert "profile: tuned" in written
    assert ("without" in written) is bool(old)
    assert not check(stack("tuned"))
