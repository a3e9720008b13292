"""Installs Autopilot's rules and waits until they are active."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lab.autopilot.policies import API_VERSION, policies
from lab.control_plane.api import ApiRefusedError, ClusterApi, Kind, Manifest
from lab.results.result import RehearsalError

FIELD_MANAGER: Final = "gke-platform-stand-in"
POLICY: Final = Kind(API_VERSION, "ValidatingAdmissionPolicy")
BINDING: Final = Kind(API_VERSION, "ValidatingAdmissionPolicyBinding")
SENTINEL: Final = "autopilot-rules-in-force"
"""Applied last; refuses a ConfigMap with a unique name, and is deleted again."""
TIMEOUT_SECONDS: Final = 20.0
"""Timeout, wall time. Measured: 0.9 to 1.8 s, twice that on a busy machine; policies become active once a second."""
POLL_SECONDS: Final = 0.03
WORKERS: Final = 8


def install(api: ClusterApi) -> None:
    """Apply all policies and bindings, and wait until they are active. Idempotent.

    Raises RehearsalError if a policy is refused or does not become active.
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

    The API server activates policies in the order of their writes, so an active sentinel implies the others. Its probe has a new
    name each time, as an older sentinel may still be active.
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
                    f"Autopilot's rules are not active {TIMEOUT_SECONDS:.0f} s after they were applied"
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
