from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.generate import policy_readme
from rule import all_rules
from tests.inventory import ROOT


def test_the_readme_is_what_the_rules_say() -> None:
    assert policy_readme.main(["--check"]) == 0, "run `make policy-readme`"


def test_it_has_every_rule_with_its_settings() -> None:
    text = policy_readme.readme()
    for rule in all_rules():
        assert f"\n### {rule.name}\n" in text
        for setting in rule.settings:
            assert f"- Setting `{setting.name}` ({setting.type}" in text


def test_a_stack_names_its_environment_to_every_rule_that_asks_for_it() -> None:
    asking = {rule.name for rule in all_rules() if "environment" in {one.name for one in rule.settings}}
    for file in (ROOT / "policy/config").glob("*.json"):
        config = json.loads(file.read_text(encoding="utf-8"))
        named = {rule: given["environment"] for rule, given in config.items() if "environment" in given}
        assert named.keys() in (set(), asking), file.name
        assert len(set(named.values())) < 2, file.name


def test_an_outdated_file_is_told_and_a_new_one_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policy_readme, "README", tmp_path / "README.md")
    assert policy_readme.main(["--check"]) == 1
    assert "run `make policy-readme`" in capsys.readouterr().err
    assert policy_readme.main([]) == 0
    assert policy_readme.main(["--check"]) == 0


def test_another_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert policy_readme.main(["--chek"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_subject_without_a_heading_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_readme, "SUBJECTS", ("serving",))
    with pytest.raises(ValueError, match="capacity"):
        policy_readme.readme()
