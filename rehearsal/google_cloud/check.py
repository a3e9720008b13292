"""The Google Cloud half of a rehearsal: what the provider or Google's APIs would refuse, found before there is a project."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from preview.recording import Recording
from rehearsal.google_cloud.complaint import Complaint
from rehearsal.google_cloud.documents import dated, document
from rehearsal.google_cloud.mapping import table
from rehearsal.google_cloud.request import build
from rehearsal.google_cloud.rules import across, together
from rehearsal.google_cloud.schema_check import check_request
from rehearsal.google_cloud.value_check import check_values
from rehearsal.results import Finding

PREFIX: Final = "gcp:"


def check(recording: Recording) -> tuple[Finding, ...]:
    """Every `gcp:` resource's inputs against Google's own API descriptions, in the order of the recording.

    An error is what a real `pulumi up` would stop at. A warning is what it would go through with, or what nothing here
    can judge. Raises RehearsalError where the descriptions are not installed.
    """
    found = [
        complaint.finding(resource.urn)
        for resource in recording.resources
        if resource.type.startswith(PREFIX)
        for complaint in check_inputs(resource.type, resource.inputs)
    ]
    google = [one for one in recording.resources if one.type.startswith(PREFIX)]
    return (*found, *(_with_date(complaint).finding(urn) for urn, complaint in across(google)))


def check_inputs(type_: str, inputs: Mapping[str, Any]) -> Iterator[Complaint]:
    """Everything wrong with the inputs of one resource."""
    mapping = table().types.get(type_)
    if mapping is None:
        yield Complaint(
            path=type_,
            what="is no type that the table knows, so nothing here has checked it",
            source="rehearsal/google_cloud/mapping.yaml",
            fix="add the type to the table, with what it was compared against",
            severity="warning",
        )
        return
    method = document(mapping.document).method(mapping.method)
    told: set[str] = set()
    for complaint in itertools.chain(
        check_request(build(mapping, inputs), method, mapping), check_values(inputs, mapping), together(type_, inputs)
    ):
        # One mistake, one finding: a value of the wrong type also has the wrong format, and breaks a rule or two.
        if complaint.path not in told:
            yield _with_date(complaint)
        told.add(complaint.path)


def _with_date(complaint: Complaint) -> Complaint:
    """The complaint, its source with the revision of the description that it names."""
    return dataclasses.replace(complaint, source=dated(complaint.source))
