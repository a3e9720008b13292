"""Every option of both parsers, written wrong in every way, as an extra argument."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from facts.engines import VERSIONS, Release, find
from facts.finding import Finding
from facts.releases import INSTEAD
from settings.checks.declared_server import DeclaredServer
from settings.checks.lessons import engine_problems
from settings.sections.engine import Engine
from settings.stack import Settings
from tests.support.settings import make_settings

RELEASES = ("0.18.1", "0.33.0")
_ARGS = "vllm-fleet:server.engine.extraArgs"


def problems(settings: Settings, arguments: tuple[str, ...], version: str) -> list[Finding]:
    engine = settings.serving.engine.but({"extraArgs": arguments, "version": version})
    server = DeclaredServer(settings, engine=engine, tag=f"v{version}")
    return [one for one in engine_problems(settings, server) if one.id == "flags-vllm-refuses"]


def has_a_place_elsewhere(argument: str) -> bool:
    try:
        Engine.model_validate({"extraArgs": (argument,)})
    except ValidationError as error:
        assert argument.partition("=")[0] in str(error)
        return True
    return False


def unknown(release: Release) -> Iterator[str]:
    """Options of the other release, of older ones, and misspelled ones."""
    known = release.options
    others = {name for version in VERSIONS for name in find(version).options.kinds} | set(INSTEAD)
    yield from sorted(f"--{name}" for name in others - set(known.spelled))
    yield from (f"--{name}-x" for name in list(known.kinds)[::16])


def without_a_value(release: Release) -> Iterator[str]:
    yield from (f"--{name}" for name, kind in release.options.kinds.items() if kind != "switch")


def of_another_type(release: Release) -> Iterator[str]:
    wrong = {"switch": "true", "int": "abc", "count": "1.5K", "number": "abc", "json": "abc"}
    for name, kind in release.options.kinds.items():
        if kind in wrong or name in release.options.choices:
            yield f"--{name}={wrong.get(kind, 'no-such-choice')}"


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("kind", [unknown, without_a_value, of_another_type])
def test_a_wrong_option_is_one_problem_with_its_key_and_flag(kind: object, version: str) -> None:
    assert callable(kind)
    arguments = tuple(one for one in kind(find(version)) if not has_a_place_elsewhere(one))
    assert len(arguments) > 30
    found = problems(make_settings(server={"profile": "serve-chat"}), arguments, version)
    assert [one.found for one in found] == list(arguments)
    assert {one.subject for one in found} == {_ARGS}
    for one in found:
        assert one.allowed
        assert one.found.partition("=")[0] in one.write
    told = {one.found: one.why for one in found}
    assert all(INSTEAD[name.removeprefix("--")] in told[name] for name in told if name.removeprefix("--") in INSTEAD)
