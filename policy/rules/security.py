"""Rules for secrets in properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from facts.finding import Finding
from facts.secrets_in_text import secrets_in, secrets_in_files
from rule import Resource, ResourceRule, Settings, finding, has
from tokens import SECRET_STORES

_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigMap": ("data",),
    "Release": ("values",),
    "Chart": ("values",),
}
"""Keys whose entries are settings: a secret among them is known by its name, too."""


def _plain_secret(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Providers need credentials, and Pulumi encrypts them in its state.
    if resource.type.startswith("pulumi:providers:"):
        return
    seen = set()
    for found in secrets_in(resource.props, SECRET_STORES.get(resource.type, ())):
        seen.add(found.path)
        yield finding(f"{found.path} looks like {found.what}")
    for key in _FILES.get(resource.kind, ()) if resource.is_kubernetes else ():
        for found in secrets_in_files({key: resource.props[key]}) if has(resource.props, key) else ():
            if found.path not in seen:
                yield finding(f"{found.path} looks like {found.what}")


RULES: Final = (
    ResourceRule(
        name="secret-in-plain-text",
        subject="security",
        statement="No property other than a Secret's contains a secret.",
        evidence="anyone who can read the object, its history or its manifest can read the secret; Pulumi encrypts only its own state. "
        "Mandatory: treat the secret as leaked. Its value is not shown",
        fix="use a Secret or Secret Manager, mounted as a file, and replace the leaked secret",
        level="mandatory",
        severity="critical",
        judge=_plain_secret,
    ),
)
