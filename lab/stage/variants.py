"""A stack with changed settings, as after editing its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleet.preview.offline import OfflineStack
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE


def varied(stack: OfflineStack, sections: Mapping[str, Any]) -> OfflineStack:
    """The stack with these settings merged into its own.

    `sections` is as in a stack file: `{"server": {"replicas": 4}}`; None removes a key; a `mode` replaces its whole section, as
    modes do not share keys. Raises SettingsError for refused settings.
    """
    config = dict(stack.config)
    for name, change in sections.items():
        key = f"{NAMESPACE}:{name}"
        if change is None:
            config.pop(key, None)
            continue
        if not isinstance(change, Mapping):
            config[key] = change if isinstance(change, str) else json.dumps(change)
            continue
        before = {} if "mode" in change else json.loads(config.get(key) or "{}")
        if merged := _merged(before, change):
            config[key] = json.dumps(merged)
        else:
            config.pop(key, None)  # an empty section is a finding
    settings = parse(stack.file.stack, config)
    problems = check(settings)
    refused = [problem for problem in problems if problem.severity == "error"]
    if refused:
        raise SettingsError(stack.file.stack, refused)
    return replace(stack, config=config, settings=settings, problems=problems)


def _merged(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged
