"""pyproject.toml, requirements.txt and constraints.txt agree."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from tests.workflows.steps import ROOT


def pins(lines: Iterable[str]) -> dict[str, str]:
    """Version by normalized name, of the packages that these lines pin."""
    found = (re.match(r"([A-Za-z0-9_.-]+)==([^\s;\\]+)", line) for line in lines)
    return {normal(one[1]): one[2] for one in found if one}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lines_of(file: str) -> list[str]:
    return (ROOT / file).read_text(encoding="utf-8").splitlines()


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
CONSTRAINTS = pins(lines_of("constraints.txt"))


def test_what_pulumi_installs_is_what_the_project_declares_first() -> None:
    program = pins(lines_of("requirements.txt"))
    assert program
    assert pins(PROJECT["dependencies"][: len(program)]) == program


def test_every_package_is_pinned_and_constraints_hold_every_pin() -> None:
    # The extra of the tests names two others.
    assert len(DECLARED) == sum("==" in line for line in DECLARED) + 1
    assert pins(DECLARED).items() <= CONSTRAINTS.items()


def test_constraints_name_every_package_that_a_pinned_one_installs() -> None:
    missing, seen = set(), set()
    following = sorted(pins(DECLARED))
    while following:
        name = following.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in CONSTRAINTS:
            missing.add(name)
        try:
            requires = metadata.distribution(name).requires or ()
        except metadata.PackageNotFoundError:  # the linters are not installed for tests
            continue
        for line in requires:
            wanted, _, marker = line.partition(";")
            if not marker:
                following.append(normal(re.split(r"[^\w.-]", wanted.strip())[0]))
    assert len(seen) > len(CONSTRAINTS) / 2
    assert missing == set()


def test_no_lock_names_a_package_index() -> None:
    for file in ("requirements.txt", "constraints.txt", "requirements.lock", "policy/requirements.lock"):
        assert not [line for line in lines_of(file) if "://" in line], file
