"""The pictures of stacks in README and guides are those of their recordings."""

from __future__ import annotations

import re

import pytest

from fleet.preview.report.picture import picture
from tests.fleet.cli.command import ROOT
from tests.fleet.preview.sample_report import resource, sample_recording
from tests.support.stacks import recorded_stack

PLACES = {"README.md": "spot", "docs/gateway.md": "gateway", "docs/scaling.md": "prod"}
_BLOCK = re.compile(r"```mermaid\n(.*?)\n```", re.DOTALL)


@pytest.mark.golden
@pytest.mark.parametrize("page", PLACES)
def test_a_picture_is_that_of_its_stack(page: str, pytestconfig: pytest.Config) -> None:
    drawn, file = "\n".join(picture(recorded_stack(PLACES[page], "preview"))), ROOT / page
    text = file.read_text(encoding="utf-8")
    if pytestconfig.getoption("--write-goldens"):
        file.write_text(_BLOCK.sub(lambda _: f"```mermaid\n{drawn}\n```", text), encoding="utf-8")
    assert _BLOCK.findall(file.read_text(encoding="utf-8")) == [drawn], "`make goldens`, and read the diff"


def test_an_arrow_leads_to_what_needs_it_and_no_name_ends_a_label() -> None:
    by_name = {one.name: one for one in sample_recording().resources}
    evil = resource("vllm-fleet:workloads:Evil", 'a"] --> x', by_name["vllm-fleet-test"])
    lines = picture(sample_recording("preview", evil))
    assert [line.count('"') for line in lines[1:4]] == [2, 2, 2]
    assert [line.strip() for line in lines if "-->" in line] == ["n0 --> n1"]
    assert "12 replicas · 8 GPU ·" in lines[2]
