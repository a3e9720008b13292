"""When Pulumi considers claims and quotas ready.

Source: pulumi-kubernetes 4, provider/pkg/await/awaiters.go, and pull requests 3130 and 4181 for claims.
"""

from __future__ import annotations

from lab.providers.kubernetes.verdict import Context, Manifest, Ready, Verdict, Waiting


def claim(manifest: Manifest, context: Context) -> Verdict:
    """Bound; on creation of a WaitForFirstConsumer claim whose class exists: Pending.

    The provider requires exactly that phase: a claim that is already Bound, after an interrupted apply, runs into the timeout.
    """
    phase = (manifest.get("status") or {}).get("phase")
    mode = (context.storage_class or {}).get("volumeBindingMode")
    if context.before is None and mode == "WaitForFirstConsumer":
        return (
            Ready("Pending until its first consumer")
            if phase == "Pending"
            else Waiting(f"phase Pending, as on creation; it is {phase or 'without a phase'}")
        )
    if phase == "Bound":
        return Ready()
    name = manifest["spec"].get("storageClassName")
    if name and context.storage_class is None:
        return Waiting(f"phase Bound; there is no StorageClass {name}")
    return Waiting(f"phase Bound; it is {phase or 'without a phase'}")


def resource_quota(manifest: Manifest, context: Context) -> Verdict:  # noqa: ARG001
    """The quota controller has adopted the limits."""
    wanted, seen = manifest["spec"].get("hard") or {}, (manifest.get("status") or {}).get("hard")
    return Ready() if seen == wanted else Waiting("the quota controller to adopt its limits")
