"""Watch a benchmark from its Job's creation to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from fleet.bench.run.fetching import progress_of
from fleet.bench.run.progress_words import state_of
from fleet.jobs import watching
from fleet.jobs.display import State

if TYPE_CHECKING:
    from fleet.bench.run.launch import Launched
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.storage import Bucket
    from fleet.jobs.cluster_view import ClusterView, Stage

_WORDS: Final[Mapping[Stage, str]] = {
    "no pods": "waiting for the Job's pod",
    "unscheduled": "waiting for the benchmark's machine",
    "starting": "the pod is starting",
    "preparing": "the pod downloads tokenizer and dataset",
    "running": "the pod is running",
    "ended": "the pod has ended",
}


def watch(
    kubectl: Kubectl,
    bucket: Bucket,
    launched: Launched,
    show: Callable[[State], None],
    *,
    poll_seconds: float = watching.POLL_SECONDS,
    patience_seconds: float = watching.PATIENCE_SECONDS,
) -> watching.Ended:
    """Return when the Job has ended. Raises LiveError when it is gone, or nothing answers for too long."""

    def state(view: ClusterView) -> State:
        if view.stage not in ("running", "ended"):
            return State(_WORDS[view.stage], view.why)
        return state_of(progress_of(bucket, launched.measurement)) or State(_WORDS[view.stage])

    return watching.watch(
        kubectl,
        launched.job,
        state,
        show,
        later=launched.how_to_fetch(),
        poll_seconds=poll_seconds,
        patience_seconds=patience_seconds,
    )
