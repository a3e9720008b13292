"""The program of this repository itself, judged as it is applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.preview.offline import open_stack, record_stack
from fleet.rehearse.apply.catalogue import Catalogue
from fleet.rehearse.apply.findings_static import static_findings
from fleet.rehearse.apply.manifests import is_object

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("stack", ["dev", "spot", "cud", "gateway"])
def test_a_sample_stack_waits_for_nothing_in_vain(stack: str) -> None:
    recording = record_stack(open_stack(ROOT, stack), "known")
    assert [one.message for one in static_findings(recording)] == []


def test_every_kubernetes_resource_of_a_stack_becomes_an_object() -> None:
    recording = record_stack(open_stack(ROOT, "gateway"), "known")
    catalogue = Catalogue(recording)
    assert catalogue.unreadable == []
    assert len(catalogue.entries) == sum(1 for one in recording.resources if is_object(one))
    assert {entry.namespace for entry in catalogue.entries} == {"", "vllm-gateway"}
