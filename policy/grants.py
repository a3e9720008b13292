"""Grants of Google Cloud's roles, in all resources that make them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from facts.rights import CNRM
from rule import Resource, dig, has, listed, mapped

_WIDE_TYPES: Final = ("gcp:projects/", "gcp:folder/", "gcp:organizations/", "gcp:billing/")
_WIDE_KINDS: Final = ("Project", "Folder", "Organization", "BillingAccount")


@dataclass(frozen=True)
class Grant:
    """A role for some principals."""

    resource: Resource
    role: str
    on_all: bool
    """Whether it holds for a whole project, folder, organization or billing account."""
    _holder: Mapping[str, Any]

    @property
    def condition(self) -> Any:
        """Its condition as an expression; None without one."""
        return dig(self._holder, "condition", "expression")

    @property
    def members(self) -> Iterator[str]:
        """Its principals. Raises for one that is unknown in a preview, so read the role first."""
        if (one := dig(self._holder, "member")) is not None:
            yield str(one)
        for one in listed(dig(self._holder, "members")):
            yield str(dig(one, "member") if isinstance(one, Mapping) else one)


def grants(resource: Resource) -> Iterator[Grant]:
    """The grants of a member, binding or policy of any service, and of Config Connector's objects."""
    props: Any = resource.props
    if resource.type.startswith("gcp:"):
        if resource.kind.endswith("Remove"):
            return
        on_all = resource.type.startswith(_WIDE_TYPES)
    elif resource.type.startswith(f"kubernetes:{CNRM}/"):
        props = dig(resource.props, "spec")
        on_all = dig(props, "resourceRef", "kind") in _WIDE_KINDS
    else:
        return
    holders = [mapped(binding) for binding in listed(dig(props, "bindings"))]
    if has(props, "member") or has(props, "members"):
        holders.append(mapped(props))
    if has(props, "policyData"):
        holders += _of_policy(dig(props, "policyData"))
    for holder in holders:
        yield Grant(resource, str(dig(holder, "role") or ""), on_all, holder)


def _of_policy(text: Any) -> Iterator[Mapping[str, Any]]:
    try:
        policy = json.loads(str(text))
    except ValueError:
        return
    yield from (mapped(binding) for binding in listed(dig(policy, "bindings")))
