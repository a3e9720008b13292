"""Every `fleet` command of docs/own-model.md, typed in the page's order in a project with a model of one's own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fleet.preview.offline import open_stack
from settings.load import check
from settings.stack_file import read
from tests.fleet.cli.command import fleet, whole_project
from tests.guides.lines import ROOT
from tests.settings.checks.test_model import LLAMA
from tests.settings.checks.test_parsers import own
from tests.support.settings import make_settings

PAGE = (ROOT / "docs" / "own-model.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
LINES = re.findall(r"^fleet .*$", "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page_run_offline_and_write_what_it_shows(tmp_path: Path) -> None:
    root = whole_project(tmp_path)
    (root / "our-model.json").write_text(json.dumps(LLAMA))
    assert [shlex.split(line)[1] for line in LINES] == ["plan", "check", "preview"]
    for line in LINES:
        done = fleet(*shlex.split(line)[1:], cwd=root)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    written = (root / "Pulumi.own.yaml").read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(  vllm-fleet:model:.*?)  vllm-fleet:weights", PAGE, re.DOTALL)
    assert shown is not None
    for line in shown[1].splitlines():
        assert line.partition(" #")[0] in written
    assert json.loads(read(root, "own").config["vllm-fleet:weights"])["tokenSecret"] == "hf-team"
    assert f"`{open_stack(root, 'own').settings.server.name}`" in PAGE


def test_the_pages_adapters_need_the_reason_that_it_gives(tmp_path: Path) -> None:
    (sections,) = (block for block in BLOCKS if "extraArgs" in str(block))
    adapters = {key.removeprefix("vllm-fleet:"): section for key, section in sections.items()}
    server = {**adapters["server"], "replicas": 1}
    found = {}
    for case in ({**server}, {**server, "reasons": {}}):
        settings = make_settings(model=own(tmp_path), weights=adapters["weights"], server=case)
        found[bool(case["reasons"])] = {one.id for one in check(settings) if one.severity == "error"}
    assert found == {True: set(), False: {"option-without-reason"}}
