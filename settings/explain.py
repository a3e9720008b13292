"""Converts pydantic's errors to `Finding`s.

Import it only after an error: it reads the sections' source for their docstrings, which is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from facts.finding import Finding, redacted, shown
from facts.texts import nearest
from settings.examples import example, line, listed_example, takes
from settings.problems import MOST_PROBLEMS, listed
from settings.sections.docstrings import field_docs
from settings.sections.engine import Engine
from settings.sections.place import Place, branches, fields_of, place_of
from settings.sections.refused import allowed_words
from settings.sections.section import NAMESPACE
from settings.sections.server import Server

_MOST_DETAILS = 4 * MOST_PROBLEMS
"""Errors of pydantic that are looked at: several can be one problem."""
_MOST_SECTIONS = 2
"""Sections that a misplaced key may belong to. Assumed: `name` and `enabled` are in more, and mean nothing by themselves."""
_GCP_KEYS = {"project", "region"}
_NO_SUCH_MODE = {
    "standard": (
        "nodes at the list price are called on-demand",
        "{mode: on-demand}, if the machine type is sold on demand",
    ),
    "cud": (
        "a committed use discount is a price, not capacity: without a reservation it holds no node",
        "{mode: reservation, name: MY-RESERVATION, commitment: cud-1y}",
    ),
}
_NO_SUCH_MODE["ondemand"] = _NO_SUCH_MODE["standard"]
_NO_SUCH_MODE["cud-1y"] = _NO_SUCH_MODE["cud-3y"] = _NO_SUCH_MODE["commitment"] = _NO_SUCH_MODE["cud"]


def explain(error: ValidationError, root: type[BaseModel], prefix: str = "") -> list[Finding]:
    """One problem for each error of pydantic in a `root`. `prefix` is put before each path, e.g. "server.engine"."""
    problems: dict[tuple[str, str], Finding] = {}
    details = error.errors(include_url=False)[:_MOST_DETAILS]
    for detail in details:
        if detail["type"] == "too_short" and any(_is_inside(other, detail) for other in details):
            continue  # pydantic dropped the wrong items before it counted
        if detail["type"] == "default_factory_not_called":
            continue  # the default is derived from another key, which is wrong
        problem = _problem(detail, root, prefix)
        earlier = problems.setdefault((problem.subject, problem.id), problem)
        if problem.allowed not in earlier.allowed:  # each branch of a union reports what it accepts
            problems[problem.subject, problem.id] = replace(earlier, allowed=f"{earlier.allowed}, or {problem.allowed}")
    return list(problems.values())


def _is_inside(inner: ErrorDetails, outer: ErrorDetails) -> bool:
    return len(inner["loc"]) > len(outer["loc"]) and inner["loc"][: len(outer["loc"])] == outer["loc"]


def _problem(detail: ErrorDetails, root: type[BaseModel], prefix: str) -> Finding:
    place = place_of(detail["loc"], root)
    kind, given, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind == "extra_forbidden":  # as typed: a program's name of a key is no key
        place = replace(place, keys=(*place.keys[:-1], detail["loc"][-1]))
    path = _path(place.keys, prefix)
    given = redacted(path, listed(given))  # before it enters any text
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _no_such_branch(path, given, place)
    last = str(place.keys[-1]) if place.keys else ""
    if kind == "extra_forbidden":
        names = _aliases(place.model)
        near, elsewhere = nearest(last, names), _other_sections(last, path.rpartition(".")[0], root, prefix)
        if "." in path and not prefix and last in _aliases(root):
            meant, write = f"{last} is a section of its own", f"{NAMESPACE}:{last}"
        elif elsewhere:
            meant, write = f"it is a key of {elsewhere}", f"{last} in {elsewhere}"
        else:
            meant = f"did you mean {near}?" if near else ""
            write = near or f"one of the keys above, or remove {last}"
        return Finding(
            id="unknown-key",
            subject=path,
            found=given,
            allowed=", ".join(sorted(names)),
            why="; ".join(filter(None, ("unknown key", meant))),
            write=write,
        )
    doc = "" if place.model is None else field_docs(place.model).get(place.field, "")
    if kind == "missing":
        return Finding(
            id="missing-key",
            subject=path,
            found=None,
            allowed=_sentence(doc) or "a value",
            why="required; there is no default",
            write=_line(place, path, _example(place, path)),
        )
    is_key, near = detail["loc"][-1] == "[key]", context.get("near")
    return Finding(
        id="wrong-value",
        subject=path,
        found=given,
        allowed=allowed_words(kind, context, detail["msg"]),
        why=f"there is no {given}; did you mean {near}?" if near else _sentence(doc) or "not a valid value",
        write=near or "a key as allowed above" if is_key else _write(kind, path, given, context, place),
    )


def _path(location: tuple[Any, ...], prefix: str) -> str:
    if not prefix and location and location[0] in _GCP_KEYS:
        return f"gcp:{location[0]}"
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    joined = f"{prefix}{text}" if prefix else text.lstrip(".")
    return f"{NAMESPACE}:{joined}"


def _no_such_branch(path: str, given: Any, place: Place) -> Finding:
    """Finding for a section whose discriminating key is missing or wrong."""
    name, by_value = branches(place.type_)
    word = given.get(name) if isinstance(given, dict) else given
    allowed = " | ".join(by_value)
    if name == "mode":
        near = nearest(str(word), by_value)
        usual = (
            "required: selectors and price follow from it",
            example(by_value[near], name) if near else "{mode: spot}",
        )
        why, write = _NO_SUCH_MODE.get(str(word).lower(), usual)
        return Finding(id="capacity-mode", subject=f"{path}.mode", found=word, allowed=allowed, why=why, write=write)
    meant = nearest(str(word), by_value) or next(iter(by_value))
    return Finding(
        id=f"no-such-{name}",
        subject=f"{path}.{name}",
        found=word,
        allowed=allowed,
        why=f"required: the other keys depend on {name}",
        write=example(by_value[meant], name),
    )


def _other_sections(name: str, here: str, root: type[BaseModel], prefix: str) -> str:
    """The sections with exactly this key; empty if it is this section's in another mode, or too common to be meant."""
    known = _sections(Server, "server") if prefix else _sections(root, "")  # the engine's root knows itself only
    sections = list(dict.fromkeys(section for section, names in known if name in names))
    is_clear = 1 <= len(sections) <= _MOST_SECTIONS and here.removeprefix(f"{NAMESPACE}:") not in sections
    return " or ".join(f"{NAMESPACE}:{section}" for section in sections) if is_clear else ""


def _sections(type_: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """Every section inside a type, by its path, with its keys."""
    if path == "server.engine":
        type_ = Engine
    fields = fields_of(type_)
    if fields and path:
        yield path, _aliases(type_)
    for name, info in fields.items():
        yield from _sections(info.annotation, f"{path}.{info.alias or name}".lstrip("."))
    for member in () if fields else get_args(type_):
        yield from _sections(member, path)


def _aliases(model: type[BaseModel] | None) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()] if model is not None else []


def _sentence(doc: str) -> str:
    return doc.rstrip(".")


_SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), "true") | dict.fromkeys(("false", "no", "off", "0"), "false")


def _write(kind: str, path: str, given: Any, context: dict[str, Any], place: Place) -> str:
    """What to write for a wrong value: the value corrected, else an example."""
    if "write" in context:
        return str(context["write"])
    item = bool(place.keys) and isinstance(place.keys[-1], int)
    if item and (whole := listed_example(path.rpartition("[")[0])):
        return line(path, whole)
    value = _corrected(kind, given, context, place, path)
    if value is not None:
        return _line(place, path, f"[{value}]" if item and kind == "literal_error" else value)
    return _line(place, path, _example(place, path))


def _corrected(kind: str, given: Any, context: dict[str, Any], place: Place, path: str) -> str | None:
    """The given value in the form that is allowed, if it is clear what was meant."""
    if kind.startswith(("greater_than", "less_than")) and context.get("le") == 1 and 10 <= given <= 100:  # percent
        return f"{given / 100:g}"
    info = fields_of(place.model).get(place.field)
    # Of the value itself, not of the list or mapping that it is in.
    own = info if info is not None and place.keys[-1] in (info.alias, place.field) else None
    # A default is safer than the maximum, and so is part of a whole.
    if kind == "less_than_equal" and context.get("le") != 1 and info is not None and info.default is None:
        return shown(context["le"])
    if kind in ("int_type", "int_from_float", "float_type") and not isinstance(given, bool):
        number = _number(given, binary=kind != "float_type")
        allowed = number is not None and (kind == "float_type" or isinstance(number, int))
        return shown(number) if allowed and (own is None or takes(own, number)) else None
    if kind in ("string_type", "string_pattern_mismatch") and not listed_example(path):
        texts = _as_text(given) if own is not None or kind == "string_type" else ()
        return next((written for text, written in texts if own is None or takes(own, text)), None)
    if kind == "bool_type":  # no single value: the default may be what the user wanted to change
        return _SWITCHES.get(str(given).lower(), "true or false")
    if kind == "literal_error":
        if "meant" in context:
            return str(context["meant"])
        expected = str(context.get("expected", "")).replace(" or ", ", ").split(",")
        choices = [choice.strip().strip("'") for choice in expected]
        if isinstance(given, int) and not isinstance(given, bool) and all(map(str.isdigit, choices)):
            return next((choice for choice in choices if int(choice) >= given), None)
        return nearest(str(given), choices)
    return None


_NUMBER: Final = re.compile(r"\$? ?(-?[0-9]{1,15}|-?[0-9]{1,3}(?:,[0-9]{3}){1,4})(\.[0-9]{1,15})? ?([kKM]?)")


def _number(given: Any, *, binary: bool) -> int | float | None:
    """The number that a value says, without quotes, dollar sign, separators and a fraction of zero.

    `binary`: K and M count in powers of 1,024, as vLLM reads sizes.
    """
    match = _NUMBER.fullmatch(str(given).strip())
    if match is None:
        return None
    base = 1_024 if binary and match[3].isupper() else 1_000
    number = float(match[1].replace(",", "") + (match[2] or "")) * base ** (
        1 + "KM".index(match[3].upper()) if match[3] else 0
    )
    return int(number) if number.is_integer() else number


def _as_text(given: Any) -> Iterator[tuple[str, str]]:
    """Texts that a value may mean, each as it is written: in quotes, a day with its dashes, a release with its v, a URL's host."""
    if isinstance(given, bool | int | float | str):
        text = given if isinstance(given, str) else shown(given)
        day = re.sub(r"^([0-9]{4})([0-9]{2})([0-9]{2})$", r"\1-\2-\3", text)
        yield day, f'"{day}"'
        if re.match(r"[0-9]+\.[0-9]+\.[0-9]", text):
            yield f"v{text}", f"v{text}"
        host = re.split("[/?#]", re.sub("^[a-z]+://", "", text.strip().lower()))[0]
        host = re.sub(r"(:[0-9]+|\.)$", "", host)
        yield host, f'"{host}"'


def _example(place: Place, path: str) -> str:
    info, name = fields_of(place.model).get(place.field), _name(place)
    if info is not None and name == info.alias:
        return example(info.annotation, name, path=path, info=info, doc=field_docs(place.model).get(place.field, ""))
    # A user-defined key in a mapping has no meaningful example number.
    type_ = get_args(place.type_)[0] if get_origin(place.type_) is Annotated else place.type_
    return "a number as allowed above" if type_ in (int, float) else example(place.type_, name, path=path)


def _name(place: Place) -> str:
    return next((str(key) for key in reversed(place.keys) if not isinstance(key, int)), "")


def _line(place: Place, path: str, value: str) -> str:
    """As `line`, for a key with dots too."""
    return line(path, value) if _name(place).isalnum() else f"{_name(place)}: {value}"
