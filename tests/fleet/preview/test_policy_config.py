"""What a configuration makes of a pack, and where a pack finds its modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.preview.policy import Violation, start
from fleet.preview.policy_config import Declared, PolicyState, merge
from fleet.preview.report.model import Policies
from fleet.preview.report.policies import format_gaps, remarks_of
from tests.fleet.preview.programs import whole_fleet
from tests.fleet.preview.sample_changes import SWITCHED_OFF, state
from tests.support.rows import each_row

DECLARED = (
    Declared(
        name="stops", level="mandatory", schema={"most": {"type": "number", "default": 4.0}, "of": {"type": "string"}}
    ),
    Declared(name="warns", level="advisory", schema={}),
    Declared(name="sleeps", level="disabled", schema={}),
    Declared(name="lowered", level="mandatory", schema={}, initial={"enforcementLevel": "advisory"}),
)
FILE = "policy/config/blue.json"


def merged(**given: Any) -> dict[str, PolicyState]:
    return {one.name: one for one in merge(DECLARED, given, FILE)}


def test_what_no_file_touches_has_the_packs_own_levels() -> None:
    found = merged()
    assert {name: (one.level, one.by) for name, one in found.items()} == {
        "stops": ("mandatory", ""),
        "warns": ("advisory", ""),
        "sleeps": ("disabled", "policy"),
        "lowered": ("advisory", "policy"),
    }
    assert (found["stops"].settings, found["stops"].given) == ({"most": 4.0}, ())
    assert found["lowered"].lowered


@pytest.mark.parametrize("all_", ["disabled", {"enforcementLevel": "disabled"}])
def test_a_policys_own_entry_goes_before_all(all_: Any) -> None:
    found = merged(all=all_, stops={"enforcementLevel": "mandatory", "most": 9}, sleeps="advisory")
    assert [name for name, one in found.items() if one.disabled] == ["warns", "lowered"]
    assert (found["stops"].by, found["stops"].given, found["stops"].settings["most"]) == ("", ("most",), 9)
    assert (found["warns"].by, found["sleeps"].by) == (FILE, FILE)


def test_a_remediation_stops_as_much_as_a_mandatory_rule() -> None:
    found = merged(all="remediate")
    assert not any(one.lowered or one.disabled for one in found.values())


@each_row(
    "given",
    [
        {"stop": "disabled"},
        {"all": "Disabled"},
        {"all": {"enforcementLevel": None}},
        {"stops": {"enforcementLevel": 3}},
        {"stops": {"least": 1}},
        {"stops": {"most": "1"}},
        {"stops": {"most": True}},
        {"all": {"most": 1}},
    ],
)
def test_what_the_engine_refuses_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"stop|warns|lowered|sleeps"):
        merged(**given)


def test_a_quoted_value_is_short() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its length is what is tested
        merged(stops={"of": ["x"] * 100_000})
    assert len(str(caught.value)) < 200


def test_what_is_switched_off_is_in_the_verdict_and_named() -> None:
    asked = Policies(state="judged", states=(state("a", "mandatory"),))
    assert format_gaps(asked) == ""
    assert format_gaps(SWITCHED_OFF) == "3 of 4 policies asked, 1 lowered to warnings"
    told = " ".join(remarks_of(SWITCHED_OFF))
    for name in ("no-surge-on-gpu-pods", "image-latest", "maxUsdPerHour 900"):
        assert name in told
    assert "Disabled" not in " ".join(remarks_of(asked))


@pytest.mark.parametrize("policy", ["a-rule-failed", "public-grant"])
def test_a_policy_without_a_verdict_is_named(policy: str) -> None:
    failed = Violation(
        policy=policy, level="advisory", urn="", message=f"can't run policy '{policy}' during preview: x"
    )
    assert any(policy in one for one in remarks_of(Policies(state="judged", violations=(failed,))))


@pytest.mark.slow
def test_a_base_pack_finds_its_own_modules_before_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment can lead to the checkout, whose facts a pull request changes."""
    for name in ("base", "head"):
        (tmp_path / name / "policy").mkdir(parents=True)
        (tmp_path / name / "house.py").write_text(f"WHO = {name!r}\n")
    pack = tmp_path / "base" / "policy"
    (pack / "PulumiPolicy.yaml").write_text("runtime: python\nversion: 1.0.0\n")
    (pack / "__main__.py").write_text(
        "import sys\nfrom pathlib import Path\nsys.path.append(str(Path(__file__).resolve().parent.parent))\n"
        "import house\nfrom pulumi_policy import PolicyPack, StackValidationPolicy\n"
        "def say(args, report):\n    report(house.WHO)\n"
        'PolicyPack(name="p", policies=[StackValidationPolicy(name="who", description="Who.", validate=say)])\n'
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "head"))

    def judged(modules: Path | None = None) -> str:
        with start(pack, project="vllm-fleet", stack="gateway", modules=modules) as run:
            (violation,) = run.judge(whole_fleet("known"))
        return violation.message.rpartition("\n")[2]

    assert judged() == "head"
    assert judged(modules=tmp_path / "base") == "base"
