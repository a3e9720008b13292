"""The lesson that applies to what was found, in the words that settings/ and the ledger have for it.

Nothing is told twice in this repository: a lesson about settings is found by laying what the server says over the stack's
settings and asking settings/checks/lessons.py what these repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.verify.findings import Lesson
from settings.problems import Problem, SettingsError

if TYPE_CHECKING:
    from settings.stack import Settings

_SHOWN_BY: Mapping[str, Mapping[str, Any]] = {
    "utilisation-with-mtp": {
        "gpuMemoryUtilization": 0.95,
        "kvCacheDtype": "bfloat16",
        "speculative": {"method": "mtp", "numSpeculativeTokens": 1},
    },
    "hybrid-prefix-cache-flags": {"enablePrefixCaching": True, "mambaCacheMode": None, "mambaBlockSize": None},
    "tp8-on-one-gpu-model": {"dataParallelSize": 1, "tensorParallelSize": 8},
}
"""Engine settings under which the lesson's own condition holds, so that its words can be asked for."""


def repeated(settings: Settings, found: Mapping[str, Any], image_tag: str | None = None) -> tuple[Lesson, ...]:
    """Lessons that the running engine repeats and the stack file does not. `found`: engine settings by camelCase name."""
    declared = {problem.id for problem in _problems(settings)}
    running = _problems(_with(settings, found, image_tag))
    return tuple(_lesson(one, in_the_file=False) for one in running if one.id not in declared)


def declared(settings: Settings, id_: str) -> tuple[Lesson, ...]:
    """The lesson of that id where the stack's own settings repeat it."""
    return tuple(_lesson(one) for one in _problems(settings) if one.id == id_)


def known(settings: Settings, id_: str) -> tuple[Lesson, ...]:
    """The lesson of that id whether or not the settings repeat it; none where it does not hold for the stack's model."""
    changed = _with(settings, _SHOWN_BY[id_])
    return tuple(_lesson(one, in_the_file=False) for one in _problems(changed) if one.id == id_)[:1]


def speculation_off() -> Lesson:
    """What speculation is worth. Its id is the ledger's row."""
    from facts.figures import published

    without, with_ = published("phases.no-mtp-095"), published("phases.mtp1-092")
    return Lesson(
        id=without.id,
        text=f"{without.title}: {without.total_tokens_per_s:,} tok/s without, {with_.total_tokens_per_s:,} with one draft token",
    )


def acceptance_falls() -> Lesson:
    """What the article saw of drafts that are not accepted. Its id is the ledger's row."""
    from facts.figures import published

    row = published("phases.tp8-mtp5")
    shares = ", ".join(f"{one:g}" for one in row.details["acceptance_percent_by_position"])
    return Lesson(
        id=row.id,
        text=f"{row.title}: acceptance by position {shares} %; a draft that is not accepted costs a step's work for nothing",
    )


def proxy_only_subnet(settings: Settings) -> tuple[Lesson, ...]:
    """Why a Gateway stays unprogrammed. For a stack that joins another's network, that network's setting is meant."""
    from settings.sections.network import Network

    network = settings.network
    without = network.model_copy(update={"proxy_only": network.proxy_only.model_copy(update={"enabled": False})})
    assert isinstance(without, Network)
    changed = _copy(settings, network=without, platform=settings.platform.model_copy(update={"stack": None}))
    wanted = "gateway-without-proxy-only-subnet"
    # A stack with the gateway has the subnet unless it says otherwise.
    says_no = network.proxy_only.enabled is False
    return tuple(_lesson(one, in_the_file=says_no) for one in _problems(changed) if one.id == wanted)


def _problems(settings: Settings | None) -> tuple[Problem, ...]:
    from settings.checks.lessons import lessons

    if settings is None:
        return ()
    try:
        return lessons(settings)
    except SettingsError:
        return ()


def _with(settings: Settings, engine: Mapping[str, Any], image_tag: str | None = None) -> Settings | None:
    """The settings with engine settings laid over them; None where these cannot be a setting of ours."""
    server = settings.server
    update: dict[str, Any] = {"engine": {**server.engine, **engine}}
    if image_tag is not None:
        update["image"] = server.image.model_copy(update={"tag": image_tag})
    changed = _copy(settings, server=server.model_copy(update=update))
    try:
        _ = changed.serving
    except SettingsError:
        return None
    return changed


def _copy(settings: Settings, **update: Any) -> Settings:
    changed = settings.model_copy(update=update)
    # A copy of a model carries what was computed from the original.
    for name in ("serving", "placement"):
        changed.__dict__.pop(name, None)
    return changed


def _lesson(problem: Problem, *, in_the_file: bool = True) -> Lesson:
    # Where the stack file is right, there is nothing to write into it.
    return Lesson(id=problem.id, text=problem.why, write=problem.write if in_the_file else "")
