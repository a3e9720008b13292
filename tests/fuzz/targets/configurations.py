"""A stack's configuration: values of every key, one or several of them wrong."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import yaml
from hypothesis import strategies as st

from facts.secrets_in_text import without_secrets
from fleet.preview.record.recorder import record
from settings.checks.placeholders import placeholders
from settings.load import accept, check, parse
from settings.problems import SettingsError
from settings.sections.refused import PATTERN_TEXTS
from tests.fuzz.damage import Edit, Path, edited, edits
from tests.fuzz.target import Target, require, require_problems
from tests.inventory import ROOT
from tests.settings.near_valid import Config, configs

STACKS = sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))
PLACEHOLDER = "fleet-tests"
_COMPARED = 60
"""Characters of a path; messages cut a longer one."""


def shipped() -> list[Config]:
    """The repository's own stacks, with a project of their own."""
    found = []
    for stack in STACKS:
        content = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))
        found.append({**content["config"], "gcp:project": PLACEHOLDER})
    return found


def texts(config: Config) -> dict[str, str]:
    """As the engine passes it."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def _inputs() -> st.SearchStrategy[dict[str, Any]]:
    """Mostly the repository's own stacks: drawing another one takes ten times as long."""
    documents = st.integers(0, 5).flatmap(lambda number: configs() if number == 5 else st.sampled_from(_SHIPPED))
    return st.tuples(documents, edits()).map(lambda drawn: _case(*drawn))


def _case(document: Config, changes: list[Edit]) -> dict[str, Any]:
    config, changed = edited(document, changes)
    alone = changed[0] if len(changed) == 1 else None
    return {"config": config, "changed": alone, "before": document if alone else None}


_SHIPPED = shipped()


def judge(value: dict[str, Any]) -> bool:
    """Refused in words at the key's own path, or previewed."""
    config, changed = value["config"], value["changed"]
    if not isinstance(config, dict):
        return False
    try:
        settings = parse("x", texts(config))
    except SettingsError as error:
        require_problems(error.problems)
        if changed is not None and _parses(json.dumps(value["before"])):
            _require_place(error, changed, texts(config))
        return False
    problems = (*placeholders(settings), *check(settings))
    require_problems(problems)
    if any(problem.severity == "error" for problem in problems):
        return False
    require(accept("x", texts(config)) == settings, "a second reading differs")
    if settings.owns_platform:  # a guest is recorded with what its platform has put out
        record(ROOT, project="vllm-fleet", stack="x", config=texts(config), mode="known")
    return True


@cache
def _parses(config: str) -> bool:
    try:
        parse("x", texts(json.loads(config)))
    except SettingsError:
        return False
    return True


def _require_place(error: SettingsError, path: Path, config: dict[str, str]) -> None:
    """What is refused is the place that was changed, or beneath or above it."""
    if path[-1] in ("mode", "type", "id") or not {"gcp:project", "gcp:region"} <= config.keys():
        path = path[:-1]  # another mode has other keys, another model needs some
    place = (
        str(path[0]) + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path[1:]) if path else ""
    )
    told = [_printable(one.subject)[:_COMPARED] for one in error.problems]
    place = _printable(without_secrets(place))[:_COMPARED]
    near = any(one.startswith(place) or place.startswith(one) for one in told)
    require(near, f"{error.problems[0].id} is told elsewhere", (place, error.text()))
    spelled = [one for one in PATTERN_TEXTS if any(one in problem.text() for problem in error.problems)]
    require(not spelled, "a regular expression is shown", spelled)


def _printable(path: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in path)


TARGET = Target(inputs=_inputs(), judge=judge)
