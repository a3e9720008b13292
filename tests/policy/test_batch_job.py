"""The Job of a batch, which `fleet batch run` makes outside of the program, is as sound as what the program makes."""

from __future__ import annotations

from pods import all_servers
from rule import Resource, ResourceRule, all_rules, with_defaults
from settings.derived.batch_pods import BatchPods
from tests.policy.samples import kubernetes, message
from tests.policy.test_cases import seen
from tests.support.stacks import recorded_stack
from workloads.batch.job import Work, config_map_manifest, job_manifest
from workloads.python_image import IMAGE


def test_a_batchs_job_breaks_no_rule_beside_its_stack() -> None:
    stack = seen(recorded_stack("batch"), by_inputs=False)
    space = next(all_servers(stack)).pod.namespace
    registry = next(all_servers(stack)).container.image.partition("vllm/")[0]
    work = Work(
        batch="b0123456789ab", shards=range(9), last=8, url="/v1/chat/completions", request_seconds=600.0, until=7200.0
    )
    job = job_manifest(
        work,
        servers=4,
        pods=BatchPods(4, 20),
        now=0.0,
        namespace=space,
        key_store=None,
        endpoint="http://qwen35-server:8000",
        bucket="p-batch-vllm-batches",
        image=f"{registry}{IMAGE}",
        config_map="programs",
        labels={},
    )
    config_map = config_map_manifest(name="programs", batch=work.batch, namespace=space, labels={})
    made = [kubernetes("batch/v1:Job", job), kubernetes("core/v1:ConfigMap", config_map)]
    assert findings([*stack, *made], of=made) - findings(stack, of=[]) == set()


def findings(resources: list[Resource], *, of: list[Resource]) -> set[str]:
    """What rules about a stack find in these resources, and rules about a resource in some of them."""
    return {
        message(rule, one)
        for rule in all_rules()
        for subject in (of if isinstance(rule, ResourceRule) else [resources])
        for one in rule.judge(subject, with_defaults(rule, {}))  # type: ignore[arg-type]
    }
