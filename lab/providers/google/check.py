"""A recording's `gcp:` inputs against Google's own API descriptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.preview.record.recording import Recording
from lab.providers.google.complaint import Complaint
from lab.providers.google.documents import document
from lab.providers.google.mapping import table
from lab.providers.google.request import build
from lab.providers.google.schema_check import check_request
from lab.providers.google.value_check import check_values


def check(recording: Recording) -> list[str]:
    """What Google's APIs would refuse, or what no description here covers, one line for each input."""
    return [
        f"{resource.name} {complaint.path}: {complaint.what} ({complaint.source})"
        for resource in recording.resources
        if resource.type.startswith("gcp:")
        for complaint in check_inputs(resource.type, resource.inputs)
    ]


def check_inputs(type_: str, inputs: Mapping[str, Any]) -> Iterator[Complaint]:
    """Everything wrong with the inputs of one resource. Raises KeyError for a type that mapping.yaml lacks."""
    mapping = table().types[type_]
    method = document(mapping.document).method(mapping.method)
    found: set[str] = set()
    for complaint in itertools.chain(
        check_request(build(mapping, inputs), method, mapping), check_values(inputs, mapping)
    ):
        # One mistake, one complaint: a value of the wrong type also has the wrong format.
        if complaint.path not in found:
            yield complaint
        found.add(complaint.path)
