"""The requirements files, constraints.txt and pyproject.toml agree."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from tests.workflows.steps import ROOT


def pins(path: Path) -> dict[str, str]:
    """Version by normalized name, of the packages that a file pins itself."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {normal(name): version for name, version in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


CONSTRAINTS = pins(ROOT / "constraints.txt")
FILES = sorted(ROOT.glob("requirements*.txt"))


def test_constraints_hold_every_pin() -> None:
    for file in FILES:
        assert pins(file).items() <= CONSTRAINTS.items(), file.name


def test_constraints_name_every_package_that_a_pinned_one_installs() -> None:
    missing, seen = set(), set()
    following = sorted({name for file in FILES for name in pins(file)})
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
    for file in (*FILES, ROOT / "constraints.txt", ROOT / "requirements.lock", ROOT / "policy" / "requirements.lock"):
        assert "://" not in file.read_text(encoding="utf-8"), file.name
