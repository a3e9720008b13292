"""One stack's rehearsal: preparation, drills, report."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.preview.offline import open_stack, record_stack
from lab.charts import keda, pool
from lab.control_plane.build import ETCD, KUBERNETES, KWOK, PULUMI, binaries, pulumi
from lab.control_plane.custom_resources.definitions import definitions
from lab.control_plane.modules import module_folders
from lab.drills.runner import Runner
from lab.engine.installation import kubernetes_provider, users_own, wanted_provider
from lab.report.model import RehearsalReport, Versions, redacted
from lab.stage.stage import Surroundings, recording_key

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from fleet.preview.record.recording import Recording
    from lab.drills.drill import Drill
    from lab.report.progress import Progress


def rehearse(root: Path, stack: str, drills: Sequence[Drill], *, progress: Progress) -> RehearsalReport:
    """Play the drills on one stack.

    Raises SettingsError and ProgramError for the stack, RehearsalError for this machine.
    """
    began = time.monotonic()
    opened = open_stack(root, stack)
    recording, around = prepared(opened, progress=progress)
    progress.drills(len(drills))
    runner = Runner(
        opened,
        around,
        on_start=lambda drill: progress.drill_starts(drill.name),
        on_result=progress.drill_ended,
    )
    results = runner.play(drills)
    played = {result.name for result in results}
    report = RehearsalReport(
        project=recording.project,
        stack=recording.stack,
        versions=Versions(
            pulumi=PULUMI.version if runner.pulumi is None else runner.pulumi.installation.version,
            provider=around.plugin.version,
            wanted_provider=wanted_provider(),
            kubernetes=runner.kubernetes_version or KUBERNETES.version,
            kwok=KWOK.version,
            etcd=ETCD.version,
        ),
        wall_seconds=time.monotonic() - began,
        drills=results,
        retained=tuple(runner.retained),
        not_played=() if runner.stopped is None else tuple(one.name for one in drills if one.name not in played),
        stop_code=_exit_code(runner.stopped),
    )
    return redacted(report, recording.plaintexts)


def prepared(opened: OfflineStack, *, progress: Progress) -> tuple[Recording, Surroundings]:
    """The recorded program, and what its stages need; programs are built if they are not in the cache.

    Raises ProgramError and RehearsalError.
    """
    progress.starts("record the program")
    recording = record_stack(opened, "known")
    progress.starts("build the control plane")
    programs, modules = binaries(progress.step), module_folders(progress.step)
    if users_own() is None:
        pulumi(progress.step)
    around = Surroundings(
        binaries=programs,
        plugin=kubernetes_provider(progress.step),
        definitions=tuple(definitions(modules)),
        modules=modules,
        charts=(pool.chart(modules), keda.chart(modules)),
        recordings={recording_key(opened): recording},
        progress=progress.step,
    )
    return recording, around


def _exit_code(stop: KeyboardInterrupt | SystemExit | None) -> int:
    """As shells encode signals; 0 without one."""
    if stop is None:
        return 0
    return stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 128 + signal.SIGINT
