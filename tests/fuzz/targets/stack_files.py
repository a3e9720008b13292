"""The bytes of a stack file: what YAML parsers read differently, what no editor writes, what is too much."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from settings import strict_yaml
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fuzz.damage import TEXTS, damaged_bytes
from tests.fuzz.target import Target, fleet, require, require_problems
from tests.fuzz.targets.configurations import STACKS
from tests.inventory import ROOT

PIECES: tuple[bytes, ...] = (
    *(text.encode("utf-8", "surrogatepass") for text in TEXTS),
    b"\t", b"\r\n", b"\r", b"\n\n", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"%YAML 1.1\n---\n",
    b"\n---\n", b"\n...\n", b"? ", b": ", b"- ", b", ", b"{", b"}", b"[", b"]", b"|\n", b">-\n", b"&a ", b"*a", b"<<: *a\n", b"!!binary ",
    b"!!python/object/apply:os.system ", b"!!int ", b"!<tag:yaml.org,2002:str> ", b"# ", b"'", b'"', b"\\x00", b'"\\ud800"',
    b"\n  vllm-fleet:spending:", b"\n  vllm-fleet:machine:", b"\n  vllm-fleet:server: {replicas: 2}", b"\nconfig:", b"\nenvironment: [a]",
    b"\n  vllm-fleet:hfToken: {secure: v1:abc}", b"\n  server: {}", b"\n  gcp:project: b", b"\nencryptionsalt: v1:x", b"\nconfigs: 1",
    b"[" * 200, b"{a: " * 60, b"a: &a [" + b"*a," * 9 + b"]\n", b"\n".join(b"a%d: &a%d [%s]" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9))
                                                                         for i in range(1, 9)),
    b"x" * 70_000, b"- x\n" * 3_000, b" " * 30_000, b"\n" * 30_000, b"'" + b"\n" * 3_000 + b"'", b"#" * 300_000,
)  # fmt: skip
_SHIPPED = [
    (ROOT / f"Pulumi.{stack}.yaml").read_bytes().replace(b"your-project-id", b"fleet-tests") for stack in STACKS
]
_SMALL = SMALL_STACK.encode()
_PIECES_ALONE = st.lists(st.sampled_from(PIECES), max_size=12).map(lambda some: b"".join(some).decode("latin-1"))


def judge(text: str) -> bool:
    """Refused in words with line and key, or read as another parser of YAML reads it, and again the same."""
    data = text.encode("latin-1")
    folder = _folder()
    (folder / "Pulumi.x.yaml").write_bytes(data)
    done = fleet("check", "--stack", "x", "--root", str(folder))
    try:
        file = read(folder, "x")
        settings = parse("x", file.config, file.unopened)
        problems = check(settings)
    except SettingsError as error:
        require_problems(error.problems)
        require(done.code == 2, "`check` accepts what is refused", error)
        return False
    require_problems(problems)
    document = strict_yaml.load(data, name="x", stack="x")
    require(_plain(document) == _plain(yaml.safe_load(data)), "another parser reads something else", document)
    (folder / "Pulumi.x.yaml").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    again = read(folder, "x")
    require(parse("x", again.config, again.unopened) == settings, "written and read again it differs", document)
    return done.code < 2


def _plain(value: Any) -> Any:
    """Without what YAML 1.1 and 1.2 are known to differ in, and no parser of today confuses: 1e3 is a number."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


@cache
def _folder() -> Path:
    return project(Path(tempfile.mkdtemp(prefix="fleet-fuzz-")))


TARGET = Target(
    inputs=damaged_bytes([_SMALL, *_SHIPPED], PIECES) | _PIECES_ALONE,
    judge=judge,
)
