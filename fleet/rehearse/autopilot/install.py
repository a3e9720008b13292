"""Puts Autopilot's rules on a cluster and returns when they are in force."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fleet.rehearse.api import ApiRefusedError, ClusterApi, Kind, Manifest
from fleet.rehearse.autopilot.policies import API_VERSION, policies
from fleet.rehearse.results import RehearsalError

FIELD_MANAGER: Final = "gke-platform-stand-in"
POLICY: Final = Kind(API_VERSION, "ValidatingAdmissionPolicy")
BINDING: Final = Kind(API_VERSION, "ValidatingAdmissionPolicyBinding")
SENTINEL: Final = "autopilot-rules-in-force"
"""Applied last, refuses one ConfigMap of a name that nobody uses, and is deleted again."""
TIMEOUT_SECONDS: Final = 20.0
"""Longest wait, wall time. Measured: 0.9 to 1.8 s, twice that on a busy machine; new policies are taken over once a second."""
POLL_SECONDS: Final = 0.03
WORKERS: Final = 8


def install(api: ClusterApi) -> None:
    """Apply every policy and its bindings, and return when all of them are in force. Doing it again changes nothing.

    Raises RehearsalError when a policy is refused or does not come into force.
    """
    chosen = policies()
    with ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="policies") as pool:
        list(pool.map(lambda one: _apply(api, one.manifest), chosen))
        list(pool.map(lambda binding: _apply(api, binding), [binding for one in chosen for binding in one.bindings]))
    _wait_until_in_force(api)


def _apply(api: ClusterApi, manifest: Manifest) -> None:
    try:
        api.apply(manifest, field_manager=FIELD_MANAGER, force=True)
    except ApiRefusedError as refusal:
        name = manifest["metadata"]["name"]
        raise RehearsalError(f"the API server refuses the policy {name}: {refusal.message}") from refusal


def _wait_until_in_force(api: ClusterApi) -> None:
    """Wait for the sentinel.

    The API server takes policies over from its watch, in the order of their writing, all at once and once a second. So
    whoever sees the last one refuse knows that every earlier one does. A new name each time: an older sentinel proves nothing.
    """
    probe = f"probe-{secrets.token_hex(4)}"
    policy, binding = _sentinel(probe)
    _apply(api, policy)
    _apply(api, binding)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        while not _is_refused(api, probe):
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"Autopilot's rules are not in force {TIMEOUT_SECONDS:.0f} s after they were applied"
                )
            time.sleep(POLL_SECONDS)
    finally:
        api.delete(BINDING, SENTINEL)
        api.delete(POLICY, SENTINEL)


def _sentinel(probe: str) -> tuple[Manifest, Manifest]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy: Manifest = {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": SENTINEL},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "resourceNames": [probe]}]},
            "validations": [{"expression": "false", "message": "Autopilot's rules are in force"}],
        },
    }
    binding: Manifest = {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {"name": SENTINEL},
        "spec": {"policyName": SENTINEL, "validationActions": ["Deny"]},
    }
    return policy, binding


def _is_refused(api: ClusterApi, probe: str) -> bool:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": probe, "namespace": "default"}}
    try:
        api.raw("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", body=body)
    except ApiRefusedError as refusal:
        if SENTINEL in refusal.message:
            return True
        raise
    return False
