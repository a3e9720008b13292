"""Every file of others that the toolbox reads, in the folder where its command looks for it: results, verdicts, sums, states, options."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fleet.bench.measurement import Judged
from fleet.clients.kubectl import Kubectl
from fleet.plan.prices.sku_list import SkuListError
from fleet.plan.prices.sku_list import read as read_skus
from fleet.preview.compare.baseline import BaselineError
from fleet.preview.compare.baseline_state import read_state
from fleet.preview.policy_config import PolicyError, read_config
from fleet.report.printable import printable
from fleet.rollout.judge.answers import ANSWERS_FILE
from tests.fleet.bench.made_up.results import BEGAN, make_measurement
from tests.fleet.cli.test_spending import STATE
from tests.fleet.clients.test_stack_outputs import outputs
from tests.fleet.plan.prices.made_up_skus import SKUS
from tests.fleet.preview.programs import fleet_like
from tests.fleet.preview.state_export import write_state
from tests.fleet.rollout.judge.sides import answers
from tests.fuzz.damage import damaged, damaged_bytes
from tests.fuzz.target import Target, fleet, require, require_text, working_folder
from tests.inventory import ROOT

_PIECES = (
    b"", b",", b'"', b"}", b"[" * 3_000, b"NaN", b"1e999", b"-1", b"null", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\n", b"\0", b"0" * 5_000,
    b'{"a": ' * 500, b"x" * 100_000, b"\x1b[2J", b"../../etc/passwd", b" " * 100_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A file, sound as it stands, and what reads it. `read` says whether it was accepted."""

    file: Path
    read: Callable[[], bool]
    packed: bool = False
    """Compressed; damaged within."""

    @property
    def text(self) -> bytes:
        """The sound content."""
        data = self.file.read_bytes()
        return gzip.decompress(data) if self.packed else data

    def write(self, text: bytes) -> None:
        """Put another content in its place."""
        self.file.write_bytes(gzip.compress(text, 1) if self.packed else text)


DEAR = ("verdict", "answers", "merged.json")
"""Kinds that take many times as long as the others: whole measurements are computed again."""


def _made(folder: Path, **options: Any) -> Path:
    small: dict[str, Any] = {"clients": 2, "requests_per_client": 8, "connections_per_client": 2, "servers": 1}
    return make_measurement(folder, **{**small, **options})


def _prepare(*arguments: str) -> None:
    done = fleet(*arguments)
    require(done.code < 2, "a sound file cannot be made", done.err)


@cache
def _kinds() -> dict[str, Kind]:
    place = Path(tempfile.mkdtemp(prefix="fleet-fuzz-"))
    measured = _made(place / "measured", engines_per_server=1)
    run = measured / "point-00-repeat-0"
    merge = _merge(measured)
    kinds = {name: Kind(run / name, merge) for name in ("client-001.json", "client-001.witness.json", "pod-0.json")}
    kinds |= {name: Kind(measured / name, merge) for name in ("run.json", "dcgm.json")}
    kinds["server-metrics"] = Kind(run / "server-metrics.jsonl.gz", merge, packed=True)
    kinds |= _of_a_merge(place, measured) | _of_a_rollout(place) | _of_a_stack(place)
    state = write_state(fleet_like("known"), place / "state.json")
    kinds["state"] = Kind(state, lambda: _reads(read_state, state, BaselineError))
    skus = place / "skus.json"
    skus.write_text(json.dumps({"skus": SKUS, "nextPageToken": ""}), encoding="utf-8")
    kinds["skus"] = Kind(skus, lambda: _reads(read_skus, skus, SkuListError))
    return kinds


def _of_a_merge(place: Path, measured: Path) -> dict[str, Kind]:
    """What was made of results: merged."""
    merged = shutil.copytree(measured, place / "merged")
    _prepare("bench", "merge", str(merged))
    return {"merged.json": Kind(merged / "merged.json", _export(merged, place / "report.json"))}


def _reads(read: Callable[[Path], Any], file: Path, declared: type[Exception]) -> bool:
    """A reader without a command that could run here; `fleet` prints its own kind of error and nothing else."""
    try:
        read(file)
    except declared as error:
        require_text(printable(str(error)), declared.__name__)
        return False
    return True


def _merge(folder: Path) -> Callable[[], bool]:
    merged = folder / "merged.json"

    def read() -> bool:
        try:
            done = fleet("bench", "merge", str(folder))
            if done.code < 2:
                judged = Judged.model_validate_json(merged.read_bytes())
                again = Judged.model_validate_json(judged.model_dump_json(by_alias=True))
                require(again == judged, "merged.json, written again, is another", judged.certificate)
            return done.code < 2
        finally:
            merged.unlink(missing_ok=True)

    return read


def _export(folder: Path, out: Path) -> Callable[[], bool]:
    def read() -> bool:
        out.unlink(missing_ok=True)
        return fleet("bench", "export", str(folder), "--out", str(out)).code < 2

    return read


def _of_a_rollout(place: Path) -> dict[str, Kind]:
    """A verdict and what it is made of."""
    old, canary = place / "old", place / "canary"
    for seed, side in enumerate((old, canary)):
        for number in (1, 2):
            turn = 10 * seed + number
            options = {
                "with_texts": False,
                "with_gpu": False,
                "began": BEGAN + 1_000 * turn,
                "name": f"bench-{turn:08d}",
            }
            _made(side / f"{number}-made", seed=turn, repeats=2, **options)
        (side / ANSWERS_FILE).write_text(answers().model_dump_json(by_alias=True), encoding="utf-8")
    project = _project(place / "rollout", "dev")
    start = ("--stack", "dev", "--root", str(project))
    _prepare("rollout", "start", *start, "--set", "engine.seed=1")
    stack = project / "Pulumi.dev.yaml"
    declared = stack.read_bytes()

    judged = ("rollout", "judge", *start, "--results", str(old), str(canary), "--out")
    _prepare(*judged, str(place / "verdicts"))
    [verdict] = (place / "verdicts").glob("*.json")

    def promote() -> bool:
        try:
            return fleet("rollout", "promote", *start, "--verdict", str(verdict)).code < 2
        finally:
            stack.write_bytes(declared)

    return {
        "verdict": Kind(verdict, promote),
        "answers": Kind(canary / ANSWERS_FILE, lambda: fleet(*judged, str(place / "again")).code < 2),
    }


def _of_a_stack(place: Path) -> dict[str, Kind]:
    """What a cluster, the engine and a project's own folder say of a stack with a spending limit."""
    project = _project(place / "spending", "dev")
    with (project / "Pulumi.dev.yaml").open("a", encoding="utf-8") as file:
        file.write("  vllm-fleet:spending: {limit: 1000, then: pause}\n")
    kept = place / "sum.json"
    kept.write_text(json.dumps(STATE), encoding="utf-8")
    told = place / "outputs.json"
    told.write_text(json.dumps(outputs()), encoding="utf-8")
    policies = project / "policy" / "config" / "dev.json"
    policies.parent.mkdir(parents=True)
    shutil.copy(ROOT / "policy" / "config" / "dev.json", policies)

    def spending(*options: str) -> Callable[[], bool]:
        def read() -> bool:
            with _cluster(kept):
                return fleet("spending", "--stack", "dev", "--root", str(project), *options, place="spending").code < 2

        return read

    return {
        "sum": Kind(kept, spending("--context", "any")),
        "outputs": Kind(told, spending("--outputs", str(told))),
        "policy config": Kind(policies, lambda: _reads(lambda _: read_config(project, "dev"), policies, PolicyError)),
    }


@contextlib.contextmanager
def _cluster(file: Path) -> Iterator[None]:
    """A cluster whose ConfigMap of the sum was edited; its other objects are as the API server has them."""
    there: dict[str, Any] = {
        "spending": {"data": {"state": file.read_bytes().decode(errors="replace")}},
        "spending-guard": {"status": {"readyReplicas": 1}},
        "spending-pause": {},
    }
    before = Kubectl.get, Kubectl.find
    Kubectl.get = lambda _, __, name: there[name]  # type: ignore[method-assign,assignment,misc]
    Kubectl.find = lambda _, __, name: there.get(name)  # type: ignore[method-assign,assignment,misc]
    try:
        yield
    finally:
        Kubectl.get, Kubectl.find = before  # type: ignore[method-assign]


def _project(folder: Path, stack: str) -> Path:
    folder.mkdir()
    for name in ("Pulumi.yaml", f"Pulumi.{stack}.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


_SOUND_OPTIONS = [
    ["plan", "--tokens-per-second", "100000", "--isl", "2048", "--osl", "512", "--capacity", "spot", "--headroom", "0.2", "--spares", "1"],
    ["plan", "--users", "500", "--workload", "article", "--ttft-p99-ms", "900", "--tpot-ms", "30", "--profile", "serve-chat"],
    ["plan", "--documents", "1000", "--tokens-per-document", "900", "--output-tokens", "50", "--deadline", "8h", "--machine", "any"],
    ["plan", "--usd-per-hour", "500", "--region", "europe-west4", "--model", "Qwen/Qwen3.5-27B-FP8", "--starts-from", "cluster"],
    ["prices", "--machine", "a4-highgpu-8g", "--region", "europe-west4", "--mode", "spot"],
    ["models", "--machine", "g2-standard-12"],
    ["check", "--stack", "dev", "--root", "."],
    ["rollout", "plan", "--stack", "dev", "--root", ".", "--set", "engine.maxModelLen=8192", "--engine-version", "0.33.0"],
    ["bench", "merge", "measured", "--slo", "ttft:500,tpot:50,e2e:9000", "--exclude", "reason:WORD"],
]  # fmt: skip


def judge(value: dict[str, Any]) -> bool:
    """Accepted, or an error in words."""
    kinds = _kinds()
    if value["kind"] == "options":
        with working_folder(_project_of_options()):
            return fleet(*value["options"], place="a command with wrong options").code < 2
    kind = kinds[value["kind"]]
    sound_text = kind.text
    try:
        kind.write(value["text"].encode("latin-1"))
        return kind.read()
    finally:
        kind.write(sound_text)


@cache
def _project_of_options() -> Path:
    return _project(Path(tempfile.mkdtemp(prefix="fleet-fuzz-")) / "project", "dev")


@cache
def _document(name: str) -> Any:
    """A file's JSON; of JSON lines the list; None for another format."""
    text = _kinds()[name].text
    with contextlib.suppress(ValueError):
        return json.loads(text)
    with contextlib.suppress(ValueError):
        return [json.loads(line) for line in text.splitlines()]
    return None


@cache
def _of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Damage of one kind."""
    if name == "options":
        return damaged(_SOUND_OPTIONS).map(lambda drawn: {"kind": name, "options": _words(drawn)})
    as_bytes = damaged_bytes([_kinds()[name].text], _PIECES)
    document = _document(name)
    if document is None:
        return as_bytes.map(lambda text: {"kind": name, "text": text})
    as_json = damaged([document]).map(lambda drawn: _json(drawn, lines=name == "server-metrics"))
    return st.one_of(as_json, as_json, as_json, as_bytes).map(lambda text: {"kind": name, "text": text})


def _words(drawn: Any) -> list[str]:
    """What is written, and where, is not among the options: it would be tried on this machine."""
    return [one if isinstance(one, str) else json.dumps(one) for one in drawn[:40]]


def _json(document: Any, *, lines: bool) -> str:
    return "\n".join(map(json.dumps, document)) if lines and isinstance(document, list) else json.dumps(document)


def _names() -> list[str]:
    names = ["options", *_kinds()]
    return [one for one in names if one not in DEAR] * 10 + [one for one in DEAR if one in names]


TARGET = Target(inputs=st.sampled_from(_names()).flatmap(_of), judge=judge)
