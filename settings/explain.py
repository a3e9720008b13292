"""Turns pydantic's errors into `Problem`s: the key's path, the value, what is allowed, why, what to write.

Imported only once something is wrong, so it may take its time (it reads the sections' source for their docstrings).
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from settings.problems import Problem, value_at
from settings.sections.capacity import Calendar, FlexStart, Ladder, Reservation, Spot
from settings.sections.docstrings import field_docs
from settings.sections.section import NAMESPACE

_GCP_KEYS = {"project", "region"}
_MODES: dict[Any, type[BaseModel]] = {
    "spot": Spot,
    "flex-start": FlexStart,
    "calendar": Calendar,
    "reservation": Reservation,
    "ladder": Ladder,
}
_NO_SUCH_MODE = {
    "on-demand": (
        "A4 machines are not sold on demand: a pod without a capacity choice stays Pending for ever (the article, "
        '"A note on GPU provisioning")',
        "{mode: spot}, or {mode: flex-start, runDurationSeconds: 86400}",
    ),
    "cud": (
        "a committed use discount is a price, not capacity: without a reservation no node is held for it",
        "{mode: reservation, name: MY-RESERVATION, commitment: cud-1y}",
    ),
}
_NO_SUCH_MODE["ondemand"] = _NO_SUCH_MODE["standard"] = _NO_SUCH_MODE["on-demand"]
_NO_SUCH_MODE["cud-1y"] = _NO_SUCH_MODE["cud-3y"] = _NO_SUCH_MODE["commitment"] = _NO_SUCH_MODE["cud"]


def explain(error: ValidationError, root: type[BaseModel], prefix: str = "") -> list[Problem]:
    """One problem per thing that pydantic refused in a `root`. `prefix` is put before each path, e.g. "server.engine"."""
    problems: dict[tuple[str, str], Problem] = {}
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "too_short" and any(_is_inside(other, detail) for other in details):
            continue  # pydantic counts the items that are left once it has dropped the wrong ones
        if detail["type"] == "default_factory_not_called":
            continue  # a default that is made from other keys, one of which is wrong
        problem = _problem(detail, root, prefix)
        earlier = problems.setdefault((problem.path, problem.id), problem)
        if problem.allowed not in earlier.allowed:  # the branches of a union each say what they would take
            problems[problem.path, problem.id] = replace(earlier, allowed=f"{earlier.allowed}, or {problem.allowed}")
    return list(problems.values())


def _is_inside(one: ErrorDetails, other: ErrorDetails) -> bool:
    return len(one["loc"]) > len(other["loc"]) and one["loc"][: len(other["loc"])] == other["loc"]


def _problem(detail: ErrorDetails, root: type[BaseModel], prefix: str) -> Problem:
    raw = detail["loc"]
    # pydantic puts the mode after the section; further on, the same word is a key: `capacity.reservation`.
    in_mode = len(raw) > 1 and raw[0] == "capacity" and raw[1] in _MODES
    location = _without_union_branches(raw[:1] + raw[2:] if in_mode else raw, root)
    path = _path(location, prefix)
    if in_mode and len(raw) > 2:
        root, location = _MODES[raw[1]], location[1:]
    kind, given, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if isinstance(given, tuple):
        given = list(given)  # as the stack file has it
    given = value_at(path, given)  # before any sentence is made of it
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _capacity_mode(path, given)
    model, field = _find(root, location)
    names = _aliases(model)
    if kind == "extra_forbidden":
        near = get_close_matches(str(location[-1]), names, n=1, cutoff=0.5)
        return Problem(
            id="unknown-key",
            path=path,
            value=given,
            allowed=", ".join(sorted(names)),
            why="an unknown key is a setting that silently does not apply",
            write=near[0] if near else "one of the keys above",
        )
    doc = field_docs(model).get(field, "") if model is not None else ""
    if kind == "missing":
        return Problem(
            id="missing-key",
            path=path,
            value=None,
            allowed=_sentence(doc) or "a value",
            why="there is no default that would be right for every stack",
            write=_EXAMPLES.get(str(location[-1]), f"{location[-1]}: ..."),
        )
    return Problem(
        id="wrong-value",
        path=path,
        value=given,
        allowed=_allowed(kind, context, detail["msg"]),
        why=_sentence(doc) or "the program could not use it",
        write=_write_item(location) or _write(kind, str(location[-1]) if location else "", given, context),
    )


def _write_item(location: tuple[Any, ...]) -> str | None:
    """What to write for an item of a list: the whole list, where there is an example of one."""
    if not location or not isinstance(location[-1], int):
        return None
    return _EXAMPLES.get(next((str(part) for part in reversed(location) if not isinstance(part, int)), ""))


_EXAMPLES = {
    "project": "gcp:project: my-project",
    "region": "gcp:region: europe-west4",
    "zones": 'vllm-fleet:zones: ["europe-west4-b"]',
    "capacity": "vllm-fleet:capacity: {mode: spot}",
    "recurrence": 'recurrence: "FREQ=WEEKLY;BYDAY=SA,SU"',
    "runDurationSeconds": "runDurationSeconds: 86400",
    "stack": "stack: spot, or organization/project/stack",
    "billingAccount": "billingAccount: 01ABCD-234567-89EFAB",
    "concurrency": "concurrency: [500, 1000, 2000]",
    "sha256": "sha256: the 64 digits that `sha256sum FILE` prints",
}


def _path(location: tuple[Any, ...], prefix: str) -> str:
    if not prefix and location and location[0] in _GCP_KEYS:
        return f"gcp:{location[0]}"
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    joined = f"{prefix}{text}" if prefix else text.lstrip(".")
    return f"{NAMESPACE}:{joined}"


def _capacity_mode(path: str, given: Any) -> Problem:
    mode = given.get("mode") if isinstance(given, dict) else given
    why, write = _NO_SUCH_MODE.get(
        str(mode).lower(),
        ("selectors, price and grace all follow from this one word; there is no default", "{mode: spot}"),
    )
    return Problem(
        id="capacity-mode", path=f"{path}.mode", value=mode, allowed=" | ".join(_MODES), why=why, write=write
    )


def _without_union_branches(location: tuple[Any, ...], root: type[BaseModel]) -> tuple[Any, ...]:
    """The location without pydantic's names for the branches of a union, such as "constrained-int"."""
    kept: list[Any] = []
    for part in location:
        is_branch = isinstance(part, str) and ("[" in part or part in _BRANCHES or part.startswith("literal"))
        if not (kept and is_branch and _find(root, (*kept, part))[0] is None):
            kept.append(part)
    return tuple(kept)


_BRANCHES = {"int", "constrained-int", "float", "constrained-float", "str", "constrained-str", "bool", "none"}


def _find(root: type[BaseModel], location: tuple[Any, ...]) -> tuple[type[BaseModel] | None, str]:
    """The section that holds the last key of `location`, and the Python name of that key."""
    models: list[type[BaseModel]] = [root]
    field = ""
    holder: type[BaseModel] | None = root
    for part in location:
        if isinstance(part, int) or part == "[key]":
            continue
        holder = None
        for model in models:
            for name, info in model.model_fields.items():
                if part in (name, info.alias):
                    holder, field = model, name
                    models = list(_models_in(info.annotation))
                    break
            if holder is not None:
                break
        if holder is None:
            return (models[0] if models else None), str(part)
    return holder, field


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for argument in getattr(annotation, "__args__", ()):
        found.extend(_models_in(argument))
    return found


def _aliases(model: type[BaseModel] | None) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()] if model is not None else []


def _sentence(doc: str) -> str:
    return doc.rstrip(".")


_TYPES = {
    "int_type": "a whole number without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number without quotes",
    "bool_type": "true or false without quotes",
    "string_type": "text (put it in quotes)",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of keys to values",
    "none_required": "null",
}


def _allowed(kind: str, context: dict[str, Any], message: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "literal_error":
        return str(context.get("expected", "")).replace(" or ", ", ").replace("'", "")
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        sign = {"greater_than_equal": ">=", "greater_than": ">", "less_than_equal": "<=", "less_than": "<"}[kind]
        bound = context.get("ge", context.get("gt", context.get("le", context.get("lt"))))
        return f"{sign} {bound:g}" if isinstance(bound, float) else f"{sign} {bound}"
    if kind == "string_pattern_mismatch":
        return f"text like {context.get('pattern')}"
    if kind == "too_short":
        return f"at least {context.get('min_length')} of them"
    if kind == "too_long":
        return f"at most {context.get('max_length')} of them"
    message = message.removeprefix("Value error, ")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]  # a variable keeps its capitals


def _write(kind: str, name: str, given: Any, context: dict[str, Any]) -> str:
    bounds = (context.get("ge"), context.get("gt"), context.get("le"), context.get("lt"))
    bound = next((b for b in bounds if b is not None), None)
    if bound is not None and kind.endswith("_equal"):
        return f"{name}: {bound}"
    if kind in ("int_type", "float_type") and isinstance(given, str):
        digits = given.strip()
        if digits.replace(".", "", 1).lstrip("-").isdigit():
            return f"{name}: {digits}"
    if kind == "bool_type":
        return f"{name}: {'true' if str(given).lower() in ('true', 'yes', 'on', '1') else 'false'}"
    if kind == "literal_error":
        choices = [c.strip().strip("'") for c in str(context.get("expected", "")).replace(" or ", ", ").split(",")]
        near = get_close_matches(str(given), choices, n=1, cutoff=0.3)
        return f"{name}: {near[0] if near else choices[0]}"
    if kind == "string_type":
        return f'{name}: "{given}"'
    return _EXAMPLES.get(name, f"{name}: a value as allowed above")
