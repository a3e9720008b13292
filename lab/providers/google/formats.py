"""What a value must look like: the formats that API descriptions name, and those that their texts state."""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.providers.google.documents import described_services, document
from lab.providers.google.mapping import table

Check = Callable[[Any], str | None]
"""Takes a value and says what would be allowed, or None if the value is."""

_INTEGERS: Final[Mapping[str, tuple[int, int]]] = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_DAY: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = re.compile(rf"{_DAY}[Tt]\d\d:\d\d:\d\d(\.\d{{1,9}})?([Zz]|[+-]\d\d:\d\d)")
_DURATION: Final = re.compile(r"-?\d+(\.\d{1,9})?s")
_MOST_LABELS: Final = 64
"""Source: artifactregistry.v1, Repository.labels; Compute Engine docs, labels."""
_RULE_PART: Final = re.compile(
    r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)"
    r"|BYDAY=([+-]?\d{0,2}(MO|TU|WE|TH|FR|SA|SU))(,([+-]?\d{0,2}(MO|TU|WE|TH|FR|SA|SU)))*"
    r"|(BYMONTH|BYMONTHDAY|BYSETPOS|BYWEEKNO|BYYEARDAY)=-?\d+(,-?\d+)*"
    r"|(INTERVAL|COUNT)=\d+|WKST=(MO|TU|WE|TH|FR|SA|SU)|UNTIL=\d{8}(T\d{6}Z)?"
)
_PLACES: Final[Mapping[str, str]] = {
    "emailid": r"[^\s@:]+@[^\s@:]+\.[^\s@:]+",
    "project_number": r"\d+",
    "uniqueid": r"\d+",
    "domain": r"[^\s/:@]+\.[^\s/:@]+",
    "projectid": r"[a-z0-9.:-]+",
    "subject_attribute_value": r"\S+",
    "group_id": r"\S+",
    "attribute_value": r"\S+",
}
"""What stands for a placeholder in the forms of an IAM principal; any other is one word without slashes."""
_FORM: Final = re.compile(r"(deleted:)?(user|serviceAccount|group|domain|principal|principalSet):")


def integer(value: Any, kind: str) -> str | None:
    """A whole number of an integer format; in JSON the 64-bit ones are text, and both spellings are accepted."""
    low, high = _INTEGERS[kind]
    number: int | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = int(value) if float(value).is_integer() else None
    elif isinstance(value, str) and kind.endswith("64") and re.fullmatch(r"-?\d{1,20}", value):
        number = int(value)
    return None if number is not None and low <= number <= high else f"a whole number, {low} to {high}"


def described(kind: str, value: str) -> str | None:
    """A text of a format that discovery documents name; a format unknown here is not judged."""
    if kind in ("google-datetime", "date-time"):
        return rfc3339(value)
    if kind == "date":
        return None if re.fullmatch(_DAY, value) and _is_time(value) else 'a date such as "2026-01-31"'
    if kind == "google-duration":
        return None if _DURATION.fullmatch(value) else 'seconds with an s, such as "3600s"'
    if kind == "byte":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            return "base64"
    return None


def rfc3339(value: Any) -> str | None:
    """A point in time."""
    if isinstance(value, str) and _TIME.fullmatch(value) and _is_time(value.upper()):
        return None
    return 'a time in RFC 3339, such as "2026-01-31T06:00:00Z"'


def ip_range(value: Any, version: int | None = None) -> str | None:
    """An address range in CIDR notation, without bits set behind its prefix."""
    kind = "" if version is None else f"v{version}"
    allowed = f"an IP{kind} range in CIDR notation"
    if not isinstance(value, str) or "/" not in value:
        return allowed
    try:
        found = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return allowed
    if version not in (None, found.version):
        return allowed
    address = ipaddress.ip_interface(value).ip
    return None if address == found.network_address else f"{allowed}; this one starts at {found}"


def bucket_name(value: Any) -> str | None:
    """A name that Cloud Storage takes for a bucket."""
    allowed = "3 to 63 lowercase letters, digits, dashes, underscores and dots, a letter or digit at both ends"
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]", value):
        return allowed
    if value.startswith("goog") or "google" in value or re.fullmatch(r"\d+(\.\d+){3}", value):
        return f'{allowed}, not beginning with "goog", without "google", and no IP address'
    return None


def labels(value: Any) -> str | None:
    """A map of labels."""
    allowed = "at most 64 labels; keys and values up to 63 lowercase letters, digits, dashes, underscores; keys begin with a letter"
    if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
        return allowed
    for key, text in value.items():
        if not (key[:1].isalpha() and _is_label(key) and (not isinstance(text, str) or _is_label(text))):
            return f"{allowed}; {key} is not one"
    return None


def bucket_labels(value: Any) -> str | None:
    """A map of labels, with what the provider asks of a bucket's."""
    for key in value if isinstance(value, Mapping) else ():
        if not re.fullmatch(r"[a-z0-9_-]{1,63}", key):
            return f"keys of 1 to 63 characters a-z, 0-9, _ and -; {key} is not one"
    return labels(value)


def protocol(value: Any) -> str | None:
    """An IP protocol in a firewall rule; `all` is the provider's and the API's word for every one."""
    known = ("tcp", "udp", "icmp", "esp", "ah", "ipip", "sctp", "all")
    if isinstance(value, str) and (value in known or (value.isdigit() and int(value) <= 255)):
        return None
    return f"{', '.join(known)} or a protocol number"


def port(value: Any) -> str | None:
    """A port or a range of ports in a firewall rule."""
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", value) if isinstance(value, str) else None
    if found and int(found[1]) <= int(found[2] or found[1]) <= 65_535:
        return None
    return 'a port or a range up to 65535, as text: "8000" or "8000-8010"'


def recurrence(value: Any) -> str | None:
    """How often a maintenance window comes: an RFC 5545 rule."""
    parts = value.split(";") if isinstance(value, str) else [""]
    named = [part.partition("=")[0] for part in parts]
    if all(_RULE_PART.fullmatch(part) for part in parts) and named.count("FREQ") == 1 and len(set(named)) == len(named):
        return None
    return 'an RFC 5545 rule, daily at most, such as "FREQ=WEEKLY;BYDAY=SA,SU"'


def service(value: Any) -> str | None:
    """An API that can be enabled."""
    if isinstance(value, str) and (value in described_services() or value in table().services):
        return None
    return "the name of an API, such as container.googleapis.com"


def iam_role(value: Any) -> str | None:
    """A role: predefined, or a project's or an organization's own."""
    form = r"(roles|projects/[^/\s]+/roles|organizations/\d+/roles)/[A-Za-z0-9_.]+"
    if isinstance(value, str) and re.fullmatch(form, value):
        return None
    return "roles/NAME, projects/PROJECT_ID/roles/NAME or organizations/ORGANIZATION_ID/roles/NAME"


def iam_member(value: Any) -> str | None:
    """A principal in one of the forms that the API's description lists."""
    if isinstance(value, str) and any(form.fullmatch(value) for form in member_forms().values()):
        return None
    return "a principal such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com or principal://iam.googleapis.com/…"


@functools.cache
def member_forms() -> Mapping[str, re.Pattern[str]]:
    """The forms of a principal, read out of the description's own words."""
    members = document("cloudresourcemanager.v1").schema("Binding").field("members")
    quoted = re.findall(r"`([^`\s]+)`", members.description if members else "")
    forms = [one for one in quoted if one in ("allUsers", "allAuthenticatedUsers") or ("{" in one and _FORM.match(one))]
    return {form: _pattern(form) for form in forms}


FORMATS: Final[Mapping[str, Check]] = {
    "bucket-labels": bucket_labels,
    "bucket-name": bucket_name,
    "iam-member": iam_member,
    "iam-role": iam_role,
    "ip-range": ip_range,
    "ipv4-range": functools.partial(ip_range, version=4),
    "ipv6-range": functools.partial(ip_range, version=6),
    "labels": labels,
    "port": port,
    "protocol": protocol,
    "rfc3339": rfc3339,
    "rrule": recurrence,
    "service": service,
}
"""Formats that the table may name."""


def _pattern(form: str) -> re.Pattern[str]:
    parts = re.split(r"\{([\w-]+)\}", form)
    texts = [re.escape(part) if count % 2 == 0 else _PLACES.get(part, r"[^\s/]+") for count, part in enumerate(parts)]
    return re.compile("".join(texts))


def _is_label(text: str) -> bool:
    return len(text) <= 63 and all(
        one in "-_" or ((one.isalpha() or one.isdigit()) and one == one.lower()) for one in text
    )


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
