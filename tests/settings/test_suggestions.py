"""What a refusal says to write: the right thing, and one thing."""

from __future__ import annotations

from typing import Any

from facts.finding import Finding
from settings.load import check, parse
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_config

LARGE = {"id": "nvidia/Qwen3.5-397B-A17B-NVFP4", "revision": "a" * 40}
OF_32B = {"id": "Qwen/Qwen3-32B", "revision": "a" * 40}
SPLIT = ("partial-node", "heads-not-divisible", "tp8-on-one-gpu-model", "model-exceeds-gpus")


def found(**sections: Any) -> tuple[Finding, ...]:
    server = {"replicas": 1, "profile": "record", **sections.pop("server", {})}
    try:
        return check(parse("test", make_config(server=server, **sections)))
    except SettingsError as error:
        return error.problems


def engine(**values: Any) -> dict[str, Any]:
    return {"engine": values}


@each_row(
    ("sections", "subject", "written"),
    [
        ({"server": {"profile": "chat"}}, "server.profile", "profile: serve-chat"),
        ({"server": {"profile": "Code"}}, "server.profile", "profile: serve-code"),
        ({"zones": ["europe-west4-z"]}, "zones", 'zones: ["europe-west4-b"]'),
        ({"zones": ["us-central1-a"]}, "zones", 'zones: ["europe-west4-b"], or gcp:region: us-central1'),
    ],
)
def test_a_refusal_says_what_was_meant(sections: dict[str, Any], subject: str, written: str) -> None:
    assert {one.subject: one.write for one in found(**sections) if one.blocks} == {f"vllm-fleet:{subject}": written}


def test_a_misspelt_region_is_not_told_with_its_zones() -> None:
    told = [one for one in found(region="us-centrl1", zones=["us-central1-a"]) if one.blocks]
    assert [(one.id, one.write) for one in told] == [("no-such-region", "gcp:region: us-central1")]


def test_a_region_without_the_machine_names_the_nearest_with_it() -> None:
    (told,) = (
        one for one in found(region="europe-west1", zones=["europe-west1-b"]) if one.id == "region-without-machine"
    )
    assert told.severity == "warning"
    assert told.write.startswith('gcp:region: europe-west4 and zones: ["europe-west4-b"]')


@each_row(
    ("sections", "id_", "written"),
    [
        (
            {
                "machine": "a3-highgpu-8g",
                "model": LARGE,
                "server": {"profile": "397b-nvfp4", **engine(tensorParallelSize=3)},
            },
            "model-exceeds-gpus",
            "tensorParallelSize: 4 and dataParallelSize: 2",
        ),
        (
            {"machine": "g2-standard-12", "model": OF_32B, "server": {"profile": "serve-chat"}},
            "model-exceeds-gpus",
            "machine: a3-highgpu-1g, or machine: g2-standard-48 with tensorParallelSize: 4, or machine: a2-ultragpu-1g",
        ),
        (
            {"server": engine(tensorParallelSize=3)},
            "tp8-on-one-gpu-model",
            "dataParallelSize: 8, tensorParallelSize: 1",
        ),
        ({"server": engine(dataParallelSize=4)}, "partial-node", "dataParallelSize: 8 with tensorParallelSize: 1"),
        (
            {
                "machine": "a3-highgpu-8g",
                "model": OF_32B,
                "server": {"profile": "serve-chat", **engine(tensorParallelSize=3)},
            },
            "heads-not-divisible",
            "tensorParallelSize: 4 and dataParallelSize: 2",
        ),
    ],
)
def test_a_wrong_split_over_gpus_has_one_fix(sections: dict[str, Any], id_: str, written: str) -> None:
    told = {one.id: one.write for one in found(**sections) if one.id in SPLIT and one.blocks}
    assert told == {id_: written}
