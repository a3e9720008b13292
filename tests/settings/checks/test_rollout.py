"""A canary is held against everything its servers are held against, under its own keys."""

from __future__ import annotations

from typing import Any

import pytest

from settings.derived.canary import has_own_weights
from settings.derived.figures import fleet_shape
from settings.load import check
from settings.problems import SettingsError
from settings.sections.rollout import canary_path
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings

REVISION = "7" * 7 + "a" * 33
IMAGE = {"tag": "v0.33.0", "digest": f"sha256:{'1' * 64}"}


def canary(server: dict[str, Any] | None = None, **declared: Any) -> Settings:
    given = {"replicas": 12, **(server or {})}
    return make_settings(server=given, rollout=declared)


def test_a_canary_is_one_node_more_and_counts_against_the_ceiling() -> None:
    settings = canary(engine={"seed": 1})
    assert (settings.replicas, settings.nodes, settings.gpu_ceiling) == (12, 13, 104)
    assert settings.as_canary is not None
    assert (settings.as_canary.server.name, settings.as_canary.nodes) == ("qwen35-server-canary", 1)


@pytest.mark.parametrize(
    "engine",
    [{"maxModelLen": 131_072}, {"tensorParallelSize": 8, "dataParallelSize": 1}, {"maxNumSeqs": 8}],
)
def test_what_is_refused_of_a_server_is_refused_of_its_canary_under_its_own_key(engine: dict[str, Any]) -> None:
    of_server = check(make_settings(server={"engine": engine}))
    refused = {(one.id, canary_path(one.subject)) for one in of_server if one.severity == "error"}
    of_canary = {(one.id, one.subject) for one in check(canary(engine=engine)) if one.severity == "error"}
    assert refused
    assert refused == of_canary
    assert all(path.startswith("vllm-fleet:rollout.engine.") for _, path in refused)


def test_an_engine_setting_is_laid_over_the_servers_and_null_leaves_it_to_vllm() -> None:
    settings = canary(server={"engine": {"seed": 1, "maxNumSeqs": 256}}, engine={"seed": None})
    assert settings.canary is not None
    assert (settings.canary.engine.seed, settings.canary.engine.max_num_seqs) == (None, 256)


def test_another_release_brings_its_own_image() -> None:
    pinned = {"image": {"tag": "v0.18.0", "digest": f"sha256:{'2' * 64}"}, "engine": {"version": "0.18.0"}}
    for declared in ({"engine": {"version": "0.18.1"}}, {"image": IMAGE}):
        settings = canary(server=pinned, **declared)
        assert settings.canary is not None
        assert settings.canary.image.tag == f"v{settings.canary.engine.version}" != settings.serving.image.tag


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"engine": {"maxNumSeq": 1}}, "engine.maxNumSeq"),
        ({"engine": {"version": "0.99.0"}}, "engine.version"),
        ({"image": {"tag": "v0.33.0-cu130"}}, "image.digest"),
        ({"model": {"id": "some/model"}}, "model.revision"),
        ({"weight": 51}, "weight"),
    ],
)
def test_a_wrong_canary_is_refused_by_its_own_key(declared: dict[str, Any], path: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        canary(**declared)
    assert f"vllm-fleet:rollout.{path}" in {problem.subject for problem in refusal.value.problems}


def test_a_servers_name_has_room_for_the_canarys_ending() -> None:
    assert canary(server={"name": "s" * 33}, engine={"seed": 1}).as_canary is not None
    with pytest.raises(SettingsError) as refusal:
        canary(server={"name": "s" * 34}, engine={"seed": 1})
    assert [problem.subject for problem in refusal.value.problems] == ["vllm-fleet:server.name"]


def test_a_gateway_before_the_servers_says_nothing_about_the_canary() -> None:
    behind = {"gateway": {"enabled": True}, "server": {"replicas": 12, "apiKeySecret": "key-of-clients"}}
    of_servers = {one.id for one in check(make_settings(**behind))}
    beside = check(make_settings(**behind, rollout={"engine": {"seed": 1}}))
    assert {one.id for one in beside} == of_servers


@pytest.mark.parametrize(
    ("weight", "pool", "pickers"), [(None, None, 2), (0, "qwen35-pool-canary", 4), (5, "qwen35-pool-canary", 4)]
)
def test_a_canary_among_users_has_a_pool_and_pickers_that_are_counted(
    weight: int | None, pool: str | None, pickers: int
) -> None:
    settings = make_settings(
        gateway={"enabled": True, "epp": {"cpu": 10, "replicas": 2}},
        rollout={"engine": {"seed": 1}} | ({} if weight is None else {"weight": weight}),
    )
    assert not [one for one in check(settings) if one.severity == "error"]
    assert (settings.canary_pool, settings.pickers, fleet_shape(settings).epp_vcpus) == (pool, pickers, 10 * pickers)


SEED = {"engine": {"seed": 1}}


def reserved(**nodes: int) -> dict[str, Any]:
    return {"capacity": {"mode": "reservation", "name": "ours", **nodes}}


@each_row(
    ("settings", "problem", "level"),
    [
        (canary(), "canary-without-difference", "warning"),
        (canary(server={"replicas": 0}, **SEED), "canary-beside-paused-servers", "error"),
        (canary(**SEED, weight=5), "canary-weight-without-gateway", "error"),
        (
            make_settings(gateway={"enabled": True, "pool": "p" * 34}, rollout={**SEED, "weight": 5}),
            "pool-name-too-long",
            "error",
        ),
        # A canary needs a node of the reservation.
        (make_settings(**reserved(nodes=12), rollout=SEED), "reservation-too-small", "error"),
        (make_settings(**reserved(nodes=12)), "reservation-too-small", None),
        (make_settings(**reserved(), rollout=SEED), "canary-needs-a-reserved-node", "warning"),
    ],
)
def test_what_a_canary_needs_beside_it(settings: Settings, problem: str, level: str | None) -> None:
    told = {one.id: one.severity for one in check(settings)}
    assert told.get(problem) == level


def test_another_revision_has_weights_of_its_own() -> None:
    assert not has_own_weights(canary(engine={"seed": 1}))
    assert has_own_weights(canary(model={"revision": REVISION}))
    downloads = make_settings(weights={"source": "huggingface"}, rollout={"model": {"revision": REVISION}})
    assert not has_own_weights(downloads)
