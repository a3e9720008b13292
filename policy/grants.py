"""Grants of Google Cloud's roles: by member or by binding, of any service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rule import Resource, dig, has, listed
from tokens import WIDE_GRANTS


@dataclass(frozen=True)
class Grant:
    """A role for some principals."""

    resource: Resource
    role: str

    @property
    def on_all(self) -> bool:
        """Whether it holds for a whole project, folder, organization or billing account."""
        return self.resource.type.startswith(WIDE_GRANTS)

    @property
    def members(self) -> Iterator[str]:
        """Its principals. Raises for one that is unknown in a preview, so read the role first."""
        if has(self.resource.props, "member"):
            yield str(dig(self.resource.props, "member"))
        for one in listed(dig(self.resource.props, "members")):
            yield str(one)


def grants(resource: Resource) -> Iterator[Grant]:
    """The grant that a resource is, if it is one."""
    given = has(resource.props, "member") or has(resource.props, "members")
    if resource.type.startswith("gcp:") and given:
        yield Grant(resource, str(dig(resource.props, "role") or ""))
