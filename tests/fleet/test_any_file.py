"""Whatever stands in a JSON file of others: it is read, or refused in words without a secret."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from facts.user_error import UserError
from fleet.bench.merge import merge_folder
from fleet.clients import stack_outputs
from fleet.preview.policy_config import CONFIG_FOLDER, read_config
from fleet.report.printable import printable
from tests.fleet.bench.merge.folders import RUN, sound
from tests.fleet.clients.test_stack_outputs import outputs
from tests.inventory import ROOT
from tests.support.canaries import shown
from tests.support.damage import damaged, damaged_bytes

ANY = settings(suppress_health_check=[*HealthCheck], phases=[Phase.generate])  # shrinking merges for minutes
SMALL = {"clients": 2, "requests_per_client": 8, "connections_per_client": 2, "servers": 1, "engines_per_server": 1}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Callable[[], object]]]:
    """Each sound as it stands, and what reads it."""
    folder = tmp_path_factory.mktemp("files")
    measured = shutil.copytree(sound(**SMALL), folder / "measured")
    policies = folder / CONFIG_FOLDER / "dev.json"
    policies.parent.mkdir(parents=True)
    shutil.copy(ROOT / CONFIG_FOLDER / "dev.json", policies)
    told = folder / "outputs.json"
    told.write_text(json.dumps(outputs()), encoding="utf-8")
    results = [measured / name for name in ("run.json", f"{RUN}/client-001.json", f"{RUN}/client-001.witness.json")]
    return [
        *((file, lambda: merge_folder(measured)) for file in (*results, measured / RUN / "pod.json")),
        (policies, lambda: read_config(folder, "dev")),
        (told, lambda: stack_outputs.read("dev", folder, told)),
    ]


@ANY
@given(st.data())
def test_any_content(files: list[tuple[Path, Callable[[], object]]], data: st.DataObject) -> None:
    for file, reads in files:
        before = file.read_bytes()
        as_json = damaged([json.loads(before)]).map(lambda value: json.dumps(value).encode())
        file.write_bytes(data.draw(as_json | as_json | damaged_bytes([before])))
        try:
            reads()
        except UserError as error:
            assert str(error)
            assert not shown(printable(str(error)))
        finally:
            file.write_bytes(before)
