"""A stack's policy config file, and what it makes of a pack: the level and the settings of every policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from facts import strict_json
from facts.texts import hint
from facts.user_error import UserError

Level = Literal["advisory", "mandatory", "disabled", "remediate"]
LEVELS: Final[tuple[Level, ...]] = ("advisory", "mandatory", "disabled", "remediate")
"""By their number in the protocol."""
STOPS: Final = frozenset({"mandatory", "remediate"})
"""Levels that block an update; an offline preview applies no remediation."""
Given: TypeAlias = Mapping[str, "Level | Mapping[str, Any]"]
"""Contents of a policy config file: per policy, or for `all`, a level, or properties with an optional `enforcementLevel`."""

CONFIG_FOLDER: Final = "policy/config"
"""Where a project keeps its stacks' policy config files, beside the pack: the pack belongs to nobody's stacks."""
PACK_FOLDER: Final = "policy"


class PolicyError(UserError):
    """The pack could not be queried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """One policy as a stack's configuration leaves it."""

    name: str
    own: Level
    """Its level in the pack's code."""
    level: Level
    by: str
    """What sets another level than its own: the config file's path or the pack's folder; empty if nothing does."""
    settings: Mapping[str, Any]
    given: tuple[str, ...] = ()
    """The settings that the config file sets."""

    @property
    def disabled(self) -> bool:
        """Whether it is not asked at all."""
        return self.level == "disabled"

    @property
    def lowered(self) -> bool:
        """Whether it would block an update by its own level, and only warns."""
        return self.own in STOPS and self.level == "advisory"


def config_file(stack: str) -> str:
    """Path of the stack's policy config file in its project."""
    return f"{CONFIG_FOLDER}/{stack}.json"


def read_config(root: Path, stack: str) -> Given:
    """What the stack's policy config file says, nothing where there is none.

    The file is the one that `pulumi preview --policy-pack-config` takes, `policy/config/<stack>.json`, so that both
    judge alike. Raises PolicyError where it cannot be read.
    """
    return _read(root, config_file(stack))


def config_beside(pack: Path, stack: str) -> Given:
    """The same of a pack's own folder, of another checkout. Raises PolicyError where it cannot be read."""
    return _read(pack, f"config/{stack}.json")


def _read(folder: Path, name: str) -> Given:
    path = folder / name
    if not path.is_file():
        return {}
    try:
        config = strict_json.read(path)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{name} is not JSON: {error}") from error
    wrong = "an object" if not isinstance(config, dict) else _neither_level_nor_map(config)
    if wrong:
        raise PolicyError(
            f"{name} must be {wrong}; "
            'write {"policy-name": "advisory"} or {"policy-name": {"enforcementLevel": "advisory", "setting": 1}}'
        )
    return dict(config)


def _neither_level_nor_map(config: Mapping[str, Any]) -> str:
    wrong = [name for name, value in config.items() if not isinstance(value, str | dict)]
    return f"a level or an object for each policy, unlike {', '.join(wrong)[:200]}" if wrong else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One policy as a pack declares it."""

    name: str
    level: Level
    schema: Mapping[str, Mapping[str, Any]]
    """JSON schema of each setting."""
    required: tuple[str, ...] = ()
    initial: Mapping[str, Any] | None = None
    """The pack's own configuration of it: properties, with `enforcementLevel`."""


def merge(declared: Iterable[Declared], given: Given, file: str) -> tuple[PolicyState, ...]:
    """Level and settings of every policy: the schema's defaults, under the pack's own, under the config file's.

    Raises ValueError for a policy, level or property that the pack does not have.
    """
    policies = tuple(declared)
    known = {policy.name for policy in policies}
    if unknown := sorted(set(given) - known - {"all"}):
        names = ", ".join(unknown)[:200]
        raise ValueError(f"{file}: no policy is named {names}; {hint(unknown[0], sorted(known))}")
    return tuple(_merged(policy, given, file) for policy in policies)


def _merged(policy: Declared, given: Given, file: str) -> PolicyState:
    level, by = policy.level, PACK_FOLDER if policy.level == "disabled" else ""
    settings = {name: schema["default"] for name, schema in policy.schema.items() if "default" in schema}
    given_here: dict[str, None] = {}
    for source, where in ((policy.initial, PACK_FOLDER), (given.get("all"), file), (given.get(policy.name), file)):
        if source is None:
            continue
        own = {"enforcementLevel": source} if isinstance(source, str) else dict(source)
        if "enforcementLevel" in own:
            level, by = _level(own.pop("enforcementLevel"), policy.name), where
        settings |= own
        given_here |= dict.fromkeys(own if where == file else ())
    _check(policy, settings)
    unchanged = level == policy.level != "disabled"
    return PolicyState(
        name=policy.name,
        own=policy.level,
        level=level,
        by="" if unchanged else by,
        settings=settings,
        given=tuple(given_here),
    )


def _level(given: Any, policy: str) -> Level:
    for level in LEVELS:
        if given == level:
            return level
    raise ValueError(f"{policy} has the level {given!r:.60}; there are {', '.join(LEVELS)}")


def _check(policy: Declared, settings: Mapping[str, Any]) -> None:
    """Refuse what the policy's schema does, as the engine would before it asks anything."""
    if missing := sorted(set(policy.required) - settings.keys()):
        raise ValueError(f"{policy.name} needs {', '.join(missing)}")
    if unknown := sorted(settings.keys() - policy.schema.keys()):
        raise ValueError(f"{policy.name} has no property {', '.join(unknown)[:200]}")
    for key, value in settings.items():
        wanted = policy.schema[key]
        expected = str(wanted.get("type"))
        # To Python a boolean is a number, too.
        fits = isinstance(value, _TYPES.get(expected, object)) and isinstance(value, bool) <= (expected == "boolean")
        if expected in _TYPES and not fits:
            raise ValueError(f"{policy.name}.{key} is {value!r:.60}; it must be of type {expected}")
        if "enum" in wanted and value not in wanted["enum"]:
            raise ValueError(f"{policy.name}.{key} is {value!r:.60}; it must be one of {wanted['enum']}")


_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "integer": (int, float),
    "array": list,
    "object": dict,
}
