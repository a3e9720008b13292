"""The wording of a preview, held once for each report, and how long its first screen is; other tests assert ids, values and structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fleet.preview.compare.changes import Danger
from fleet.preview.report.model import Policies, Report
from fleet.preview.stack_preview import preview_stack
from tests.fleet.cli.command import ROOT
from tests.fleet.preview.sample_changes import MANDATORY, REFUSAL, compared_report, edited, sample_changes
from tests.support.formats import markdown_of, text_of

Golden = Callable[[str, str], None]

SCREEN: Final = 45
"""Lines of a terminal of 80 columns."""
CEILING: Final = replace(
    MANDATORY,
    policy="hourly-cost-above-ceiling",
    description="A stack costs no more an hour than its ceiling, by its GPU nodes and by its own output usdPerHour.",
    urn="urn:pulumi:prod::vllm-fleet::pulumi:pulumi:Stack::vllm-fleet-prod",
    message="A stack costs no more an hour than its ceiling, by its GPU nodes and by its own output usdPerHour.\nthe stack's own "
    "estimate, its output usdPerHour, is $711.56 an hour, above $200.00 (Deployment server-deployment: 8 x $88.93); at stake: $711.56 "
    "an hour, $512,323 in 30 days\nwhy: an extra digit in replicas costs a thousand dollars an hour\nwrite: fewer replicas, or a "
    "higher ceiling in the stack's policy config file",
)


def first_screen(*reports: Report) -> str:
    """As a terminal of 80 columns shows it; it fits."""
    text = text_of(*reports, width=80)
    lines = text.splitlines()
    assert len(lines) <= SCREEN, text
    assert [line for line in lines if len(line) > 80 and not line.startswith("  pulumi preview ")] == []
    return text


def test_the_previews(golden: Golden) -> None:
    spot = preview_stack(ROOT, "spot", ask_policies=False)
    golden("preview/spot.md", markdown_of(spot))
    golden("preview/spot.txt", first_screen(spot))
    golden("preview/comparison.md", markdown_of(compared_report()))
    golden("preview/comparison.txt", first_screen(compared_report()))
    table, *_ = markdown_of(compared_report(), spot, REFUSAL).partition("\nCompared with")
    golden("preview/stacks.md", table)


def test_what_blocks_has_room_on_the_screen_of_the_largest_stack(golden: Golden) -> None:
    prod = preview_stack(ROOT, "prod", ask_policies=False)
    golden("preview/prod.txt", first_screen(prod))
    blocked = replace(prod, policies=Policies(state="judged", violations=(CEILING,)))
    golden("preview/blocked.txt", first_screen(blocked))


def test_a_change_of_everything_fits_the_screen_and_leaves_nothing_out_of_the_comment() -> None:
    kinds = (
        "protected",
        "cluster-replaced",
        "bucket-replaced",
        "weights-replaced",
        "namespace-replaced",
        "endpoint-moved",
    )
    dangers = tuple(
        Danger(
            id=kind,
            message=f"{kind} {number} is replaced, because of location and of subnetwork: all that is on it is lost.",
        )
        for number in range(3)
        for kind in kinds
    )
    options = tuple(
        edited(f"spec.template.spec.containers[vllm].args[--option-{n}]", None, f"--o={n}", "added") for n in range(40)
    )
    deployment = next(one for one in sample_changes().resources if one.name == "server-deployment")
    changes = sample_changes(
        dangers=dangers,
        upgrade=tuple(f"vLLM 0.18.0 to 0.33.0: fixed: a fault (CVE-{number})" for number in range(30)),
        aftermath=tuple(
            f"`pulumi up` runs the Job {number} again, which takes about 12 minutes and a machine"
            for number in range(9)
        ),
        resources=(replace(deployment, properties=options),),
    )
    violations = tuple(replace(CEILING, policy=f"rule-{number}") for number in range(12))
    report = compared_report(changes, Policies(state="judged", violations=violations))
    first_screen(report)
    comment = markdown_of(report)
    assert [one.message for one in dangers if one.message not in comment] == []
    assert [one for one in changes.upgrade if one not in comment.replace("\u200b", "")] == []


def test_the_most_serious_danger_is_on_the_screen() -> None:
    dangers = tuple(
        Danger(id=kind, message=f"this is {kind}")
        for kind in ("namespace-deleted", "protection-removed", "bucket-deleted")
    )
    cluster = Danger(id="cluster-replaced", message="this is cluster-replaced")
    said = first_screen(compared_report(sample_changes(dangers=(*dangers, cluster))))
    assert [one.message in said for one in (cluster, *dangers)] == [True, True, False, True]
