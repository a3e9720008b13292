"""What changes for a server between two releases of vLLM."""

from __future__ import annotations

from collections.abc import Container, Iterator

from facts import advisories
from facts.machines import Gpu
from facts.releases import CHANGES, DEFECTS, Defect, Release


def upgrade(old: Release, new: Release, options: Container[str], *, hybrid: bool, gpu: Gpu) -> Iterator[str]:
    """Changes for a server with these options and variables between two releases, one line each."""
    families = (None, gpu.compute_capability // 10)
    for change in CHANGES:
        fits = change.family in families and gpu.memory_gib >= change.least_gib and (hybrid or not change.hybrid)
        if fits and change.option not in options and old.has(change.id) != new.has(change.id):
            until = "" if new.has(change.id) else "no longer: "
            yield f"{until}{change.what}" + (f" (set {change.option} to choose)" if change.option else "")
    known = (one for one in advisories.every() if not one.option or one.option in options)
    defects: tuple[Defect | advisories.Advisory, ...] = (*(one for one in DEFECTS if one.family in families), *known)
    for defect in defects:
        if defect.touches(old.number) != defect.touches(new.number):
            yield f"{'fixed' if defect.touches(old.number) else 'new defect'}: {defect.what} ({defect.id})"
    if new.driver and old.driver and new.driver != old.driver:
        yield f"CUDA {new.cuda} instead of {old.cuda}, which needs NVIDIA driver {new.driver} or later"
    yield "compile caches start empty: the first start of every replica compiles again"
