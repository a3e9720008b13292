"""What a refusal says to write: the right thing, and one thing."""

from __future__ import annotations

from typing import Any

from facts.finding import Finding
from facts.releases import CURRENT
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


ADAPTER = {"name": "legal", "id": "team/legal", "revision": "b" * 40}


def of_adapter(**rank: Any) -> dict[str, Any]:
    return {"model": {"id": "Qwen/Qwen3-32B", "revision": "a" * 40, "adapters": [{**ADAPTER, **rank}]}}


@each_row(
    ("sections", "path", "written"),
    [
        ({"server": {"image": {"tag": "0.33.0"}}}, "server.image.tag", "tag: v0.33.0"),
        ({"server": {"model": {"id": "Qwen/Qwen3-32B"}}}, "server.model", "vllm-fleet:model"),
        ({"server": {"image": {"tag": "0.18.1"}}}, "server.image.tag", "tag: v0.18.1"),
        ({"server": {"image": {"tag": "latest"}}}, "server.image.tag", f"tag: v{CURRENT}"),
        ({"server": {"image": {"tag": 0.33}}}, "server.image.tag", f"tag: v{CURRENT}"),
        *(
            ({"server": {"drainSeconds": wrong}}, "server.drainSeconds", "drainSeconds: 120")
            for wrong in (120.0, "2m", "abc", True, 0)
        ),
        *(
            ({"spending": {"limit": wrong, "then": "warn"}}, "spending.limit", "limit: 300000")
            for wrong in ("$300000", "300,000", "$300,000.00", "300k", "300K", "0.3M")
        ),
        ({"server": engine(maxModelLen="8K")}, "server.engine.maxModelLen", "maxModelLen: 8192"),
        ({"server": engine(maxModelLen="8k")}, "server.engine.maxModelLen", "maxModelLen: 8000"),
        *(
            ({"gateway": {"enabled": True, "hostname": wrong}}, "gateway.hostname", 'hostname: "llm.acme.dev"')
            for wrong in ("LLM.acme.dev", "llm.acme.dev.", "https://llm.acme.dev/v1", "llm.acme.dev:443")
        ),
        *(
            ({"gateway": {"enabled": True, "hostname": wrong}}, "gateway.hostname", "hostname: llm.example.com")
            for wrong in ("*.acme.dev", "10.0.0.1", f"{'a' * 60}." * 5 + "dev")
        ),
        ({"labels": {"team": 5}}, "labels.team", 'team: "5"'),
        ({"labels": {"team": "A B"}}, "labels.team", "team: my-team"),
        ({"server": {"drainSeconds": 90.0}}, "server.drainSeconds", "drainSeconds: 90"),
        ({"server": {"drainSeconds": 1_000}}, "server.drainSeconds", "drainSeconds: 590"),
        (
            {"capacity": {"mode": "spot", "drainSeconds": 60}},
            "capacity.drainSeconds",
            "drainSeconds in vllm-fleet:server or vllm-fleet:endpoint.router",
        ),
        ({"capacity": {"mode": "Ladder"}}, "capacity.mode", "{mode: ladder}"),
        ({"capacity": {"mode": "flexstart"}}, "capacity.mode", "{mode: flex-start, runDurationSeconds: 86400}"),
        ({"capacity": {"mode": "free"}}, "capacity.mode", "{mode: spot}"),
        ({"server": {"graceSeconds": 60}}, "server.graceSeconds", "graceSeconds in vllm-fleet:capacity"),
        ({"server": {"maxModelLen": 4_096}}, "server.maxModelLen", "maxModelLen in vllm-fleet:server.engine"),
        ({"server": {"enabled": True}}, "server.enabled", "one of the keys above, or remove enabled"),
        (
            {"server": engine(extraArgs=["--shutdown-timeout=100"])},
            "server.engine.extraArgs",
            "server.engine.shutdownTimeoutSeconds: 100, extraArgs: without --shutdown-timeout",
        ),
        ({"server": engine(extraArgs=["--port=9000"])}, "server.engine.extraArgs", "extraArgs: without --port"),
        *(
            ({"server": engine(gpuMemoryUtilization=wrong)}, "server.engine.gpuMemoryUtilization", written)
            for wrong, written in ((9, "gpuMemoryUtilization: 0.9"), (95, "gpuMemoryUtilization: 0.95"))
        ),
        ({"server": engine(max_num_seqs=32)}, "server.engine.max_num_seqs", "maxNumSeqs"),
        ({"server": engine(max_model_len=32)}, "server.engine.max_model_len", "maxModelLen"),
        ({"cluster": {"deletion_protection": True}}, "cluster.deletion_protection", "deletionProtection"),
        (of_adapter(rank=17), "model.adapters[0].rank", "rank: 32"),
        (of_adapter(rank=513), "model.adapters[0].rank", "rank: the r of its adapter_config.json"),
        (of_adapter(), "model.adapters[0].rank", "rank: the r of its adapter_config.json"),
        (
            {"capacity": {"mode": "spot", "usdPerNodeHour": -3}},
            "capacity.usdPerNodeHour",
            "usdPerNodeHour: your price of one node in USD an hour",
        ),
    ],
)
def test_a_value_to_write_is_the_one_meant_or_a_sensible_one(sections: dict[str, Any], path: str, written: str) -> None:
    assert {one.subject: one.write for one in found(**sections) if one.blocks} == {f"vllm-fleet:{path}": written}


@each_row(
    ("sections", "subject", "written"),
    [
        ({"machine": "h100"}, "vllm-fleet:machine", "vllm-fleet:machine: a3-highgpu-1g"),
        ({"machine": "8x H100"}, "vllm-fleet:machine", "vllm-fleet:machine: a3-highgpu-8g"),
        ({"machine": "a4-higgpu-8g"}, "vllm-fleet:machine", "vllm-fleet:machine: a4-highgpu-8g"),
        ({"server": {"profile": "chat"}}, "vllm-fleet:server.profile", "profile: serve-chat"),
        ({"server": {"profile": "Code"}}, "vllm-fleet:server.profile", "profile: serve-code"),
        ({"zones": ["europe-west4-z"]}, "vllm-fleet:zones", 'zones: ["europe-west4-b"]'),
        (
            {"zones": ["us-central1-a"]},
            "vllm-fleet:zones",
            'zones: ["europe-west4-b"], or gcp:region: us-central1',
        ),
        (
            {"server": {"profile": "serve-chat", **engine(maxModelLen=131_072)}},
            "vllm-fleet:server.engine.maxModelLen",
            "server: {needs: {contextTokens: 131072}}, if that is so; else maxModelLen: 8192",
        ),
    ],
)
def test_a_refusal_says_what_was_meant(sections: dict[str, Any], subject: str, written: str) -> None:
    assert {one.subject: one.write for one in found(**sections) if one.blocks} == {subject: written}


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
