"""Configurations that the schema of stack files allows, and the same with one thing wrong somewhere in them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from settings.schema import stack_file_schema
from settings.sections.section import NAMESPACE, SECRET_KEYS

Config = dict[str, Any]
Path = tuple[str | int, ...]

SCHEMA = stack_file_schema()
_CONFIG = SCHEMA["properties"]["config"]
KEYS = {key: schema for key, schema in _CONFIG["properties"].items() if key.partition(":")[2] not in SECRET_KEYS}
WRONG: tuple[Any, ...] = (
    None, "", [], {}, -1, 0, True, 1e300, 10**30, "x y", "True", "\0", "spot", "A" * 300, [[]], {"mode": "spot"}, {"spot": 1}, {"none": 1},
)  # fmt: skip
"""What nobody means, and words that pydantic has for its own purposes."""


def of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a part of the schema allows."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: of(SCHEMA["$defs"][name]))
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return st.one_of([of(one) for one in schema[union]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    low, high = schema.get("minimum"), schema.get("maximum")
    match schema.get("type"):
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"].replace("$", r"\Z"), alphabet=_ASCII)
        case "string":
            return st.text("abc-", min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 12), 12))
        case "integer":
            above = schema.get("exclusiveMinimum")
            return st.integers(low if above is None else above + 1, high)
        case "number":
            bounds = {"min_value": schema.get("exclusiveMinimum", low or 0), "max_value": high or 1e4}
            return st.floats(**bounds, exclude_min="exclusiveMinimum" in schema)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(
                of(schema["items"]), min_size=schema.get("minItems", 0), max_size=min(schema.get("maxItems", 3), 3)
            )
        case "object" if "properties" in schema:
            required = set(schema.get("required", ()))
            parts = {key: of(one) for key, one in schema["properties"].items()}
            return st.fixed_dictionaries(
                {key: one for key, one in parts.items() if key in required},
                optional={key: one for key, one in parts.items() if key not in required},
            )
        case _:
            pattern, values = next(
                iter(schema.get("patternProperties", {}).items()), ("^[a-zA-Z_]+$", schema.get("additionalProperties"))
            )
            keys = of({"type": "string", "pattern": pattern})
            return st.dictionaries(keys, of(values) if isinstance(values, dict) else st.just("1"), max_size=3)


_ASCII = st.characters(max_codepoint=127)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """A configuration whose every key the schema allows."""
    base: Config = {
        "gcp:project": "fleet-tests",
        "gcp:region": "europe-west4",
        f"{NAMESPACE}:zones": ["europe-west4-b"],
        f"{NAMESPACE}:capacity": draw(of(KEYS[f"{NAMESPACE}:capacity"])),
    }
    for key in draw(st.sets(st.sampled_from(sorted(KEYS.keys() - base.keys())), max_size=2)):
        base[key] = draw(of(KEYS[key]))
    return base


@st.composite
def near_valid(draw: st.DrawFn) -> tuple[Config, Config, Path]:
    """A configuration, the same with one thing wrong, and the place of that thing."""
    config = draw(configs())
    wrong = copy.deepcopy(config)
    path = draw(st.sampled_from(list(_places(config))))
    holder: Any = wrong
    for part in path[:-1]:
        holder = holder[part]
    way = draw(st.sampled_from(["replace", "remove", "add"]))
    if way == "remove":
        del holder[path[-1]]
    elif way == "add" and isinstance(holder[path[-1]], dict):
        name = draw(st.sampled_from(["spot", "mode", "int", "str", "none", "literal", "x[y]", "reservation", "name"]))
        holder[path[-1]][name] = draw(st.sampled_from(WRONG))
    else:
        holder[path[-1]] = draw(st.sampled_from(WRONG))
    return config, wrong, path


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*path, key)
        yield from _places(one, (*path, key))
