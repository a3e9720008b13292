"""What roles let one do beyond the one thing that they name, and principals that are more than one workload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TAKES_OVER: Final[Mapping[str, str]] = {
    r"owner|editor|admin|writer": "it changes everything there is",
    r".*[aA]dmin(?:\.\w+)?": "it deletes what it uses and, in most services, grants its access to others",
    r"storage\.legacyBucketOwner": "it deletes objects and grants its access to others",
    r"iam\.serviceAccount(?:TokenCreator|KeyAdmin)": "it acts as the service account, from anywhere",
    r".*\.serviceAgent": "it has a Google service's own rights over all that the service manages",
}
"""Roles, without `roles/`, that are too much on one bucket, repository, secret or account. Source: IAM documentation, basic and
predefined roles; roles for service account authentication."""
TAKES_OVER_A_PROJECT: Final[Mapping[str, str]] = {
    **TAKES_OVER,
    r"iam\.(?:serviceAccount(?:User|OpenIdTokenCreator)|workloadIdentityUser)": "it acts as every service account",
    r".*[eE]ditor": "it changes all that the service holds",
    r".*\.(?:d|appD)eveloper|cloudbuild\.builds\.builder": "it runs code, as accounts that it chooses",
    r"secretmanager\.secret(?:Accessor|VersionAdder|VersionManager)": "it reaches every secret",
    r"storage\.(?:object(?:User|Viewer|Creator)|legacy\w+)": "it reaches every bucket, with its weights, prompts and results",
    r"artifactregistry\.(?:writer|createOnPush\w*)": "it replaces every image",
    r"cloudkms\.cryptoKey\w*(?:De|En)crypter\w*": "it uses every key",
    r"compute\.os(?:Admin)?Login(?:ExternalUser)?|iap\.tunnelResourceAccessor": "it logs in to every instance",
}
"""Roles that are also too much on a project, a folder or an organization. Source: likewise."""
NAMED_SETS: Final = re.compile(
    r"principalSet://.*/(?:attribute\.(?:repository|workflow_ref|job_workflow_ref|sub|subject|terraform_workspace\w*)/[^*]+|group/[^*]+)"
)
"""Sets of a pool that are one repository, one pipeline or one group of people. Source: IAM documentation, principal identifiers."""
MORE_THAN_ONE: Final[Mapping[str, str]] = {
    r"allUsers|principalSet://goog/public:all": "the internet",
    r"allAuthenticatedUsers": "anyone with a Google account",
    r"domain:.*": "everyone of a domain",
    r"project(?:Owner|Editor|Viewer):.*": "everyone with a basic role in a project",
    r"group:.*@googlegroups\.com": "a group that no organization manages",
    r"serviceAccount:\d+-compute@developer\.gserviceaccount\.com": "every instance and node without an account of its own",
    r"serviceAccount:.*@(?:appspot|cloudservices)\.gserviceaccount\.com": "a default account of the project",
    r"serviceAccount:.*\[[^]]*/default\]|principal://.*/sa/default": "every pod of a namespace that names no account",
    r".*\*.*|principalSet:.*": "a whole set of identities",
}
"""Principals that are not one workload, person or managed group, `NAMED_SETS` aside. Source: IAM documentation, principal identifiers;
GKE documentation, Workload Identity Federation; Compute Engine documentation, default service account."""


def reason(table: Mapping[str, str], text: str) -> str:
    """What a table says of a name, empty where nothing."""
    return next((why for pattern, why in table.items() if re.fullmatch(pattern, text, re.IGNORECASE)), "")


def breadth(member: str) -> str:
    """Who a principal is, where it is more than one; empty for one workload, person or managed group."""
    return "" if NAMED_SETS.fullmatch(member) else reason(MORE_THAN_ONE, member)


def is_default_account(email: str) -> bool:
    """Whether a service account is the one that Google gives to whoever names none."""
    return email == "default" or bool(
        re.fullmatch(r"\d+-compute@developer\.gserviceaccount\.com|.+@appspot\.gserviceaccount\.com", email)
    )
