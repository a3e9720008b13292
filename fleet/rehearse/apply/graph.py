"""Parallel walk of a dependency graph, as in Pulumi's engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from fleet.preview.record.recording import RecordedResource, needs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Result of a walk."""

    done: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    """Not started: after the first failure the engine only finishes what runs."""


def needs_by_urn(resources: Collection[RecordedResource]) -> dict[str, set[str]]:
    """Dependencies within these resources. A parent's dependencies are not its children's."""
    urns = {one.urn for one in resources}
    return {one.urn: (needs_of(one) & urns) - {one.urn} for one in resources}


def reversed_graph(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same edges reversed: the order of deletion."""
    reverse: dict[str, set[str]] = {urn: set() for urn in needs}
    for urn, needed in needs.items():
        for one in needed:
            reverse[one].add(urn)
    return reverse


def walk(
    needs: Mapping[str, set[str]],
    work: Callable[[str], bool],
    parallel: int,
    interrupt: Callable[[], None] = lambda: None,
) -> Walk:
    """Call `work` for every key, `parallel` at a time; it returns whether it succeeded.

    After an exception of `work` or Ctrl-C, `interrupt` is called, and the exception is raised when running work has ended.
    """
    waiting = {urn: set(needed) for urn, needed in needs.items()}
    needed_by = reversed_graph(needs)
    ready = sorted(urn for urn, needed in waiting.items() if not needed)
    done: list[str] = []
    failed: list[str] = []
    started: set[str] = set()
    running: dict[Future[bool], str] = {}
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="apply") as pool:
        try:
            while ready or running:
                while ready and not failed:
                    urn = ready.pop(0)
                    started.add(urn)
                    running[pool.submit(work, urn)] = urn
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    urn = running.pop(future)
                    if not future.result():
                        failed.append(urn)
                        continue
                    done.append(urn)
                    for one in sorted(needed_by[urn]):
                        waiting[one].discard(urn)
                        if not waiting[one]:
                            ready.append(one)
        except BaseException:
            interrupt()
            raise
    return Walk(
        done=tuple(done), failed=tuple(failed), skipped=tuple(sorted(urn for urn in needs if urn not in started))
    )
