"""What counts as a range, a time, a role, a principal."""

from __future__ import annotations

import pytest

from lab.providers.google.formats import FORMATS, described, integer, member_forms

GOOD = {
    "ip-range": ["10.0.0.0/20", "0.0.0.0/0", "fd20::/64", "203.0.113.7/32"],
    "ipv4-range": ["10.0.0.0/20"],
    "ipv6-range": ["fd20:1::/48"],
    "bucket-name": ["abc", "a" * 63, "offline-preview-spot-vllm-results", "a.b_c-1"],
    "bucket-labels": [{"team": "ml"}, {}],
    "labels": [{"team": "ml-1", "größe": "ü"}, {}, {"a": ""}],
    "protocol": ["tcp", "udp", "all", "6", "255"],
    "port": ["22", "12345-12349", "0-65535"],
    "rfc3339": ["2026-01-31T06:00:00Z", "2026-01-31T06:00:00.5+02:00"],
    "rrule": [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=SA,SU",
        "FREQ=MONTHLY;BYSETPOS=1;BYDAY=SA,SU",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=1MO",
    ],
    "service": ["container.googleapis.com", "containerfilesystem.googleapis.com"],
    "iam-role": ["roles/viewer", "roles/storage.objectUser", "projects/p/roles/a.b", "organizations/12/roles/a"],
    "iam-member": [
        "allUsers",
        "user:a@example.com",
        "serviceAccount:nodes@p.iam.gserviceaccount.com",
        "serviceAccount:p.svc.id.goog[vllm/writer]",
        "group:a@example.com",
        "domain:example.com",
        "principal://iam.googleapis.com/projects/12/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/a/sa/b",
        "principalSet://iam.googleapis.com/projects/12/locations/global/workloadIdentityPools/p/*",
        "deleted:user:a@example.com?uid=123",
    ],
}
BAD = {
    "ip-range": ["10.0.0.0", "10.0.0.1/20", "10.0.0.0/33", "10.0.0/20", "", 7, None],
    "ipv4-range": ["fd20::/64"],
    "ipv6-range": ["10.0.0.0/20"],
    "bucket-name": ["ab", "a" * 64, "Abc", "-ab", "ab-", "goog-a", "my-google-a", "10.0.0.1", 7],
    "bucket-labels": [{"größe": "1"}, {"Team": "a"}, {"a": "B"}],
    "labels": [
        {"Team": "a"},
        {"1a": "b"},
        {"a": "B"},
        {"a" * 64: ""},
        {"a": "b" * 64},
        {f"a{n}": "" for n in range(65)},
        "a",
    ],
    "protocol": ["tpc", "256", "TCP", 6],
    "port": ["70000", "9-8", "-1", "a", 80],
    "rfc3339": ["2026-01-31", "2026-01-31T06:00:00", "2026-02-30T06:00:00Z", "2026-01-31 06:00:00Z", 7],
    "rrule": ["", "FREQ=HOURLY", "WEEKLY", "BYDAY=SA", "FREQ=DAILY;FREQ=DAILY", "FREQ=WEEKLY;BYDAY=SAT", 7],
    "service": ["container", "contaner.googleapis.com", "container.google.com", 7, None, []],
    "iam-role": ["viewer", "roles/", "roles/a b", "role/viewer", "organizations/a/roles/b", 7],
    "iam-member": [
        "a@example.com",
        "user:a",
        "serviceaccount:a@example.com",
        "principal://iam.googleapis.com/projects/my-project/locations/global/workloadIdentityPools/p/subject/a",
        "principal:iam.googleapis.com",
        "everybody",
        7,
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_it_is_one(name: str, value: object) -> None:
    assert FORMATS[name](value) is None


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_it_is_none_and_what_would_be_is_said(name: str, value: object) -> None:
    assert FORMATS[name](value)


def test_every_format_is_tried_both_ways() -> None:
    assert FORMATS.keys() == GOOD.keys() == BAD.keys()


def test_the_forms_of_a_principal_come_from_the_description() -> None:
    forms = member_forms()
    assert "serviceAccount:{emailid}" in forms
    assert len(forms) >= 15
    assert not [form for form in forms if "example.com" in form]


@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        (5, "int32", True),
        (5.0, "int32", True),
        ("5", "int32", False),
        (5.5, "int32", False),
        (True, "int32", False),
        (float("nan"), "int32", False),
        (2**31, "int32", False),
        (-1, "uint32", False),
        ("604800", "int64", True),
        (604800, "int64", True),
        ("6e5", "int64", False),
        (str(2**63), "int64", False),
        (str(2**63), "uint64", True),
    ],
)
def test_numbers_are_whole_and_fit_their_format(value: object, kind: str, right: bool) -> None:
    assert (integer(value, kind) is None) is right


@pytest.mark.parametrize(
    ("kind", "value", "right"),
    [
        ("google-datetime", "2026-01-31T06:00:00Z", True),
        ("google-datetime", "yesterday", False),
        ("date", "2026-01-31", True),
        ("date", "2026-02-31", False),
        ("google-duration", "3600s", True),
        ("google-duration", "0.5s", True),
        ("google-duration", "1h", False),
        ("byte", "aGVsbG8=", True),
        ("byte", "not base64!", False),
        ("google-fieldmask", "anything", True),
    ],
)
def test_texts_have_the_shape_that_the_documents_name(kind: str, value: str, right: bool) -> None:
    assert (described(kind, value) is None) is right
