"""The pack's servicer, asked in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import analyzer_pb2

from rule import Resource, all_rules
from server import Analyzer
from tests.policy.samples import kubernetes, rule_named, server
from values import UNKNOWN_TEXT

LEVELS = {0: "advisory", 1: "mandatory", 2: "disabled"}
RECORD = {
    "vllm-fleet.dev/reproduces": "phases.mtp1-092",
    "vllm-fleet.dev/on-purpose": "prefix-cache-never-hits, context-far-above-need, image-not-pinned",
}
CACHING = "--enable-prefix-caching"
LONG = ("--max-model-len=131072",)


class Pack:
    """The pack's servicer with its own defaults."""

    def __init__(self) -> None:
        self.servicer = Analyzer(all_rules())
        self.info = self.servicer.GetAnalyzerInfo(empty_pb2.Empty(), None)
        self.configure({})

    def configure(self, given: Mapping[str, Mapping[str, Any]], **levels: int) -> None:
        configured = {}
        for policy in self.info.policies:
            properties = {
                key: json_format.MessageToDict(schema)["default"]
                for key, schema in policy.configSchema.properties.items()
                if "default" in schema
            }
            level = levels.get(policy.name.replace("-", "_"), policy.enforcementLevel)
            configured[policy.name] = analyzer_pb2.PolicyConfig(
                enforcementLevel=level, properties=struct(properties | dict(given.get(policy.name, {})))
            )
        self.servicer.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=configured), None)

    def judge(self, resource: Resource) -> dict[str, tuple[str, str]]:
        request = analyzer_pb2.AnalyzeRequest(
            type=resource.type, urn=resource.urn, name=resource.name, properties=struct(resource.props)
        )
        found = self.servicer.Analyze(request, None).diagnostics
        return {one.policyName: (LEVELS[one.enforcementLevel], one.message) for one in found}

    def judge_stack(self, *resources: Resource) -> dict[str, tuple[str, str]]:
        request = analyzer_pb2.AnalyzeStackRequest(
            resources=[
                analyzer_pb2.AnalyzerResource(type=one.type, urn=one.urn, name=one.name, properties=struct(one.props))
                for one in resources
            ]
        )
        found = self.servicer.AnalyzeStack(request, None).diagnostics
        return {one.policyName: (LEVELS[one.enforcementLevel], one.message) for one in found}


def struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(values)
    return made


@pytest.fixture(scope="module")
def started() -> Pack:
    return Pack()


@pytest.fixture
def pack(started: Pack) -> Pack:
    started.configure({})
    return started


def needs() -> dict[str, str]:
    return dict(server().props["spec"]["template"]["metadata"]["annotations"])


def test_every_rule_is_a_policy_of_its_own_and_the_last_reports_what_is_on_purpose(pack: Pack) -> None:
    assert [one.name for one in pack.info.policies] == [
        *(rule.name for rule in all_rules()),
        "repeated-on-purpose",
    ]
    assert {one.name: LEVELS[one.enforcementLevel] for one in pack.info.policies} == {
        **{rule.name: rule.level for rule in all_rules()},
        "repeated-on-purpose": "advisory",
    }


def test_settings_are_in_the_schema_with_their_defaults(pack: Pack) -> None:
    schemas = {one.name: one.configSchema.properties for one in pack.info.policies}
    slack = json_format.MessageToDict(schemas["context-far-above-need"]["slack"])
    assert (slack["type"], slack["default"]) == ("number", 4.0)
    assert slack["description"].endswith("(times the need)")
    ceiling = json_format.MessageToDict(schemas["hourly-cost-above-ceiling"]["maxUsdPerHour"])
    assert "default" not in ceiling


def test_the_price_of_a_resource_is_of_the_configured_region() -> None:
    pack = Pack()
    rule = "context-far-above-need"
    pack.configure({})
    assert "list price of us-east4, 2026-07-03, the lowest" in pack.judge(server(*LONG))[rule][1]
    configured = analyzer_pb2.AnalyzerStackConfigureRequest(config={"gcp:region": "europe-west4"})
    pack.servicer.ConfigureStack(configured, None)
    message = pack.judge(server(*LONG))[rule][1]
    assert "list price of europe-west4" in message
    assert "the lowest" not in message


def test_a_verdict_has_the_rules_level_its_reason_and_its_price(pack: Pack) -> None:
    level, message = pack.judge(server(*LONG))["context-far-above-need"]
    assert level == "mandatory"
    assert message.startswith(f"{rule_named('context-far-above-need').statement}\nDeployment server")
    assert "\nwhy: " in message
    assert "131,072" in message
    assert (
        "; at stake: at least $391.28 an hour (12 A4 nodes, Spot, list price of us-east4, 2026-07-03, the lowest)\n"
        in message
    )


@pytest.mark.parametrize(
    ("drafts", "configured", "told"),
    [(5, 1, "mandatory"), (2, 1, "advisory"), (5, 0, "advisory"), (2, 0, "advisory")],
)
def test_one_policy_reports_a_mild_breach_as_advice(pack: Pack, drafts: int, configured: int, told: str) -> None:
    pack.configure({}, mtp_above_one=configured)
    speculation = f'--speculative-config={{"method":"mtp","num_speculative_tokens":{drafts}}}'
    assert pack.judge(server(speculation))["mtp-above-one"][0] == told


def test_a_breach_with_a_reason_is_advice(pack: Pack) -> None:
    given = needs() | {"vllm-fleet.dev/tensor-parallel-reason": "users wait for single answers"}
    for noted, told in ((needs(), "mandatory"), (given, "advisory")):
        assert pack.judge(server("-tp=8", annotations=noted))["tp8-on-one-gpu-model"][0] == told


def test_what_a_workload_repeats_to_reproduce_a_result_is_an_advice(pack: Pack) -> None:
    found = pack.judge(server(CACHING, annotations=needs() | RECORD))
    assert "prefix-cache-never-hits" not in found
    level, message = found["repeated-on-purpose"]
    assert level == "advisory"
    assert "\nprefix-cache-never-hits: " in message
    assert "no prompt below 3169 tokens" in message


def test_a_result_excuses_what_is_listed_for_it_and_no_more(pack: Pack) -> None:
    assert pack.judge(server(*LONG, annotations=needs() | RECORD))["context-far-above-need"][0] == "mandatory"
    for other in ("phases.qwen-397b", "phases.unknown"):
        declared = needs() | RECORD | {"vllm-fleet.dev/reproduces": other}
        assert pack.judge(server(CACHING, annotations=declared))["prefix-cache-never-hits"][0] == "mandatory"


def test_a_purpose_excuses_no_rule_that_is_no_lesson(pack: Pack) -> None:
    found = pack.judge(server(image="vllm/vllm-openai:latest", annotations=RECORD))
    assert found["image-not-pinned"][0] == "mandatory"


def test_a_purpose_without_a_result_excuses_nothing(pack: Pack) -> None:
    alone = {key: value for key, value in RECORD.items() if "on-purpose" in key}
    assert pack.judge(server(CACHING, annotations=needs() | alone))["prefix-cache-never-hits"][0] == "mandatory"


def test_what_one_resource_excuses_is_not_told_of_the_next(pack: Pack) -> None:
    pack.configure({}, repeated_on_purpose=2)
    assert "repeated-on-purpose" not in pack.judge(server(CACHING, annotations=needs() | RECORD))
    pack.configure({})
    assert "repeated-on-purpose" not in pack.judge(server())


def test_a_disabled_rule_is_not_told_on_purpose_either(pack: Pack) -> None:
    pack.configure({}, prefix_cache_never_hits=2)
    found = pack.judge(server(CACHING, annotations=needs() | RECORD))
    assert not {"prefix-cache-never-hits", "repeated-on-purpose"} & set(found)


def test_an_unknown_image_stops_only_the_rules_that_read_it(pack: Pack) -> None:
    found = pack.judge(server(*LONG, image=UNKNOWN_TEXT))
    unreached = {name for name, (_level, message) in found.items() if "can't run policy" in message}
    assert {"image-not-pinned", "deepgemm-accuracy"} <= unreached
    assert {found[name][0] for name in unreached} == {"advisory"}
    assert found["context-far-above-need"][0] == "mandatory"
    assert "mtp-above-one" not in unreached


def test_the_same_urn_with_other_values_is_judged_anew(pack: Pack) -> None:
    assert "partial-node" in pack.judge(server(gpus=4))
    assert "partial-node" not in pack.judge(server(gpus=8))
    assert "partial-node" in pack.judge(server(gpus=4))


def test_rules_about_a_stack_name_their_resource_and_its_price(pack: Pack) -> None:
    def quota(gpus: str) -> Resource:
        metadata = {"name": "gpu", "namespace": "vllm"}
        return kubernetes(
            "core/v1:ResourceQuota", {"metadata": metadata, "spec": {"hard": {"requests.nvidia.com/gpu": gpus}}}
        )

    level, message = pack.judge_stack(server(), quota("104"))["gpu-quota-above-plan"]
    assert level == "mandatory"
    assert (
        "; at stake: at least $32.61 an hour (1 A4 node, Spot, list price of us-east4, 2026-07-03, the lowest)\n"
        in message
    )
    assert "gpu-quota-above-plan" not in pack.judge_stack(server(), quota("96"))
