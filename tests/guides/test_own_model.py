"""Every `fleet` command of docs/own-model.md, typed in the page's order in a project with a model of one's own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML

from facts.memory import adapter_slots_gib
from facts.models import CATALOGUE
from fleet.preview.offline import open_stack
from settings.load import check
from settings.stack_file import read
from tests.fleet.cli.command import fleet, whole_project
from tests.guides.lines import ROOT
from tests.settings.checks.test_model import LLAMA
from tests.support.settings import make_settings

PAGE = (ROOT / "docs" / "own-model.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
LINES = [
    shlex.split(line, comments=True)
    for line in "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).splitlines()
]


@pytest.mark.slow
def test_the_commands_of_the_page_run_offline_and_write_what_it_shows(tmp_path: Path) -> None:
    root = whole_project(tmp_path)
    (root / "our-model.json").write_text(json.dumps(LLAMA))
    assert [line[1] for line in LINES if line[0] == "fleet"] == ["plan", "check", "preview"]
    file = root / "Pulumi.own.yaml"
    for line in LINES:
        if line[0] == "fleet":
            done = fleet(*line[1:], cwd=root)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        elif line[1] == "config":
            _set(file, line)
    written = file.read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(  vllm-fleet:model:.*?)  vllm-fleet:weights", PAGE, re.DOTALL)
    assert shown is not None
    for line in shown[1].splitlines():
        assert line.partition(" #")[0] in written
    assert json.loads(read(root, "own").config["vllm-fleet:weights"])["tokenSecret"] == "hf-team"
    assert f"`{open_stack(root, 'own').settings.server.name}`" in PAGE


def _set(file: Path, line: list[str]) -> None:
    """As `pulumi config set` does."""
    assert line[:3] == ["pulumi", "config", "set"]
    key, value = (word for word in line[3:-2] if word != "--path")
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 1_000
    edited = yaml.load(file.read_text(encoding="utf-8"))
    *sections, last = key.split(".")
    section = edited["config"]
    for one in sections:
        section = section.setdefault(one, {})
    section[last] = value
    yaml.dump(edited, file)


def test_the_pages_adapters_are_served_by_name_and_nothing_is_refused() -> None:
    (block,) = (block for block in BLOCKS if "adapters" in str(block))
    settings = make_settings(**{name.removeprefix("vllm-fleet:"): section for name, section in block.items()})
    assert {problem.id for problem in check(settings) if problem.severity == "error"} == set()
    assert settings.serving.engine.extra_args == ("--enable-lora", "--max-loras=2", "--max-lora-rank=32")


def test_the_pages_slots_have_the_size_of_the_arithmetic() -> None:
    rows = re.findall(r"^\| ([\w.-]+/[\w.-]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for model, shown in rows:
        gib = adapter_slots_gib(CATALOGUE[model].shape.adapter_widths, slots=1, rank=16, ranks=1)
        assert float(shown) == float(f"{gib:.2g}")
