"""The Job of a batch, which `fleet batch run` makes outside of the program, is as sound as what the program makes."""

from __future__ import annotations

from pods import all_servers
from rule import Resource, ResourceRule, all_rules, with_defaults
from tests.policy.samples import kubernetes, message
from tests.policy.test_cases import seen
from tests.support.stacks import recorded_stack
from workloads.batch.job import config_map_manifest, job_manifest
from workloads.small_pod import IMAGE


def test_a_batchs_job_breaks_no_rule_beside_its_stack() -> None:
    stack = seen(recorded_stack("batch"), by_inputs=False)
    space = next(all_servers(stack)).pod.namespace
    registry = next(all_servers(stack)).container.image.partition("vllm/")[0]
    batch = {"name": "batch-b0123456789ab", "batch": "b0123456789ab", "namespace": space, "labels": {}}
    job = job_manifest(
        **batch,  # type: ignore[arg-type]
        servers=4,
        server="qwen35-server",
        key_store=None,
        endpoint="http://qwen35-server:8000",
        bucket="p-batch-vllm-batches",
        image=f"{registry}{IMAGE}",
    )
    made = [
        kubernetes("batch/v1:Job", job),
        kubernetes("core/v1:ConfigMap", config_map_manifest(**batch)),  # type: ignore[arg-type]
    ]
    assert findings([*stack, *made]) - findings(stack) == set()


def findings(resources: list[Resource]) -> set[str]:
    return {
        message(rule, one)
        for rule in all_rules()
        for subject in (resources if isinstance(rule, ResourceRule) else [resources])
        for one in rule.judge(subject, with_defaults(rule, {}))  # type: ignore[arg-type]
    }
