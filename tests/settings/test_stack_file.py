"""Stack files are read as the engine reads them, and what the two would read differently is refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts.names import stack_names
from settings.problems import SettingsError
from settings.stack_file import read
from tests.inventory import ROOT
from tests.support.rows import each_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    return folder


def write(root: Path, text: str) -> Path:
    path = root / "Pulumi.x.yaml"
    path.write_text(text)
    return path


def problems(root: Path) -> list[str]:
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    return [problem.id for problem in refusal.value.problems]


@each_row(
    ("text", "config"),
    [
        (
            "config:\n  gcp:project: p\n  server: {replicas: 12, profile: record}\n  on_top: true\n  n: 1.5\n",
            {"gcp:project": "p", "server": {"replicas": 12, "profile": "record"}, "on_top": "true", "n": "1.5"},
        ),
        *(
            (f"config:\n  labels:\n    team: {one}\n", {"labels": {"team": one[1:-1]}})
            for one in ('"yes"', "'0755'", '"2026-11-21"')
        ),
        ("", {}),
        # Without environments its stand-in says nothing.
        ("config: {}\n", {}),
    ],
)
def test_values_become_strings_and_sections_become_json(root: Path, text: str, config: dict[str, Any]) -> None:
    (root / "Pulumi.x.esc-offline.yaml").write_text("gcp:project: p\n")
    write(root, text)
    named = {key if ":" in key else f"vllm-fleet:{key}": value for key, value in config.items()}
    found = read(root, "x").config
    assert {key: json.loads(value) if value.startswith("{") else value for key, value in found.items()} == named


def test_an_encrypted_top_level_key_is_a_secret_with_a_stand_in(root: Path) -> None:
    write(root, "encryptionsalt: v1:abc\nconfig:\n  vllm-fleet:hfToken:\n    secure: v1:ciphertext\n")
    file = read(root, "x")
    assert file.secret_keys == {"vllm-fleet:hfToken"}
    assert file.config["vllm-fleet:hfToken"] == "[secret]"


def test_a_secret_inside_a_section_is_refused_with_its_path(root: Path) -> None:
    write(root, "config:\n  vllm-fleet:server:\n    env:\n      - secure: v1:ciphertext\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert refusal.value.problems[0].subject == "vllm-fleet:server.env[0]"
    assert "ciphertext" not in str(refusal.value)


def test_a_secret_key_in_plain_text_is_refused_without_repeating_it(root: Path) -> None:
    write(root, "config:\n  vllm-fleet:hfToken: hf_plainplainplain\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert refusal.value.problems[0].id == "secret-in-plain-text"
    assert refusal.value.problems[0].write == "pulumi config set --secret vllm-fleet:hfToken"
    assert "hf_plain" not in str(refusal.value)


BROKEN = ("config: [1, 2", "config: 7", "config: []", "config: ''", "- a\n- b\n", "config:\n\t- x")
READ_DIFFERENTLY = ("yes", "off", "0755", "1_000", "12:30", "2026-11-21", "0x1F")
NO_ENVIRONMENTS = ("gcp/prod", "[{gcp/prod: {merge: false}}]", "{imports: gcp/prod}", "[7]")


@each_row(
    ("text", "id_"),
    [
        *((text, "broken-stack-file") for text in BROKEN),
        *((f"config:\n  vllm-fleet:labels:\n    team: {one}\n", "ambiguous-yaml") for one in READ_DIFFERENTLY),
        *((f"{key}:\n  gcp:project: p\nencryptionsalt: v1\n", "unknown-key") for key in ("confg", "enviroment")),
        *((f"environment: {one}\nconfig: {{}}\n", "broken-stack-file") for one in NO_ENVIRONMENTS),
    ],
)
def test_what_the_engine_would_not_read_so_is_one_clear_error(root: Path, text: str, id_: str) -> None:
    write(root, text)
    assert problems(root) == [id_]


@each_row(
    ("file", "text", "id_"),
    [
        ("Pulumi.yaml", "name: vllm-fleet\nconfig: [1]\n", "broken-stack-file"),
        ("Pulumi.yaml", "name: fleet\n", "renamed-project"),
        ("Pulumi.yaml", "runtime: python\n", "renamed-project"),
        ("Pulumi.x.esc-offline.yaml", "hfToken: plainplainplain\n", "secret-in-plain-text"),
        ("Pulumi.x.esc-offline.yaml", f"hfToken: {{fn::secret: hf_{'a' * 34}}}\n", "secret-in-plain-text"),
        ("Pulumi.x.esc-offline.yaml", "server: {env: [{fn::secret: x}]}\n", "secret-in-section"),
        ("Pulumi.x.esc-offline.yaml", "- a\n", "broken-stack-file"),
    ],
)
def test_a_wrong_file_beside_the_stacks_is_one_clear_error(root: Path, file: str, text: str, id_: str) -> None:
    write(root, "environment: [gcp/prod]\n")
    for name, usual in (("Pulumi.yaml", "name: vllm-fleet\n"), ("Pulumi.x.esc-offline.yaml", "{}\n")):
        (root / name).write_text(text if name == file else usual)
    assert problems(root) == [id_]


def test_the_parsers_reason_is_shown(root: Path) -> None:
    write(root, "config: [1, 2")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert "did not find expected ',' or ']'" in refusal.value.problems[0].why


@pytest.mark.parametrize(
    ("there", "write"),
    [
        ((), "fleet new smok --machine g2-standard-12 --model Qwen/Qwen3.5-4B"),
        (("dev", "prod"), "one of these names, or fleet new smok --from dev"),
        (("dev", "smoke"), "smoke"),
    ],
)
def test_an_unknown_stack_is_refused_with_the_nearest_or_how_to_make_it(
    root: Path, there: tuple[str, ...], write: str
) -> None:
    for name in there:
        (root / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "smok")
    assert [(one.id, one.write) for one in refusal.value.problems] == [("unknown-stack", write)]


def test_a_stack_files_name_is_told_with_its_stack(root: Path) -> None:
    write(root, "config: {}\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "Pulumi.x.yaml")
    assert [one.write for one in refusal.value.problems] == ["x"]


@pytest.mark.parametrize("line", ["gcp:accessToken: short", 'gcp:credentials: \'{"type": "service_account"}\''])
def test_credentials_of_the_provider_must_be_encrypted(root: Path, line: str) -> None:
    write(root, f"config:\n  {line}\n")
    assert problems(root) == ["secret-in-plain-text"]
    write(root, "config:\n  gcp:credentials: keys/robot.json\n  gcp:accessToken: {secure: AAAB}\n")
    assert read(root, "x").secret_keys == {"gcp:accessToken"}


BOMB = "config:\n  a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  {name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "alias bomb": (BOMB, 3, "b[0]"),
    "alias": ("config:\n  server: {engine: &e {seed: 1}, other: *e}\n", 2, "server.other"),
    "alias of itself": ("config: &a\n  x: *a\n", 2, "x"),
    "nested mappings": ("config:\n  a: " + "{a: " * 1_000 + "}" * 1_000, 1, ""),
    "nested sequences": ("config:\n  a: " + "[" * 100_000, 1, ""),
    "UTF-16": ("config: {}\n".encode("utf-16"), 1, ""),
    "Latin-1": ("config:\n  labels: {a: é}\n".encode("latin-1"), 2, ""),
    "control character": ("config:\n  a: \0\n", 2, ""),
    "timestamp": ("config: {a: !!timestamp 2026-01-01}", 1, "a"),
    "not an integer": ("config: {a: !!int foo}", 1, "a"),
    "binary": ("config: {a: !!binary aGVsbG8=}", 1, "a"),
    "set": ("config:\n  a: !!set {a}", 2, "a"),
    "own tag": ("config: {a: !x y}", 1, "a"),
    "digits": (f"config:\n  server: {{replicas: {'9' * 5_000}}}", 2, "server.replicas"),
    "beyond JSON": ("config: {a: 1e300}", 1, "a"),
    "beyond floats": ("config: {a: 1e999}", 1, "a"),
    "no number": ("config: {a: .nan}", 1, "a"),
    "merge key": ("config: {a: {<<: {b: c}}}", 1, "a"),
    "key that is no text": ("config: {a: {1: b}}", 1, "a"),
    "key that is a list": ("config:\n  a: {[b]: c}", 2, "a"),
    "two documents": ("config: {}\n---\nconfig: {}\n", 2, ""),
    "many keys": ("config:\n" + "".join(f"  k{number}: v\n" for number in range(2_000)), 1_000, "k998"),
    "given twice": ("config:\n  gcp:region: a\n  gcp:region: b\n", 3, "gcp:region"),
    "given twice in a section": ("config:\n  server:\n    replicas: 1\n    replicas: 2\n", 4, "server.replicas"),
    "with and without its namespace": ("config: {labels: {},\n vllm-fleet:labels: {}}", 2, "vllm-fleet:labels"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_within_a_second_with_its_line_and_key(root: Path, name: str) -> None:
    text, line, key = HOSTILE[name]
    (root / "Pulumi.x.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    begun = time.process_time()
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert time.process_time() - begun < 1
    (problem,) = refusal.value.problems
    assert problem.subject.startswith(f"Pulumi.x.yaml, line {line}{': ' * bool(key)}{key}")
    expected = {"given": "duplicate-key", "with": "duplicate-key", "beyond": "ambiguous-yaml"}
    assert problem.id == expected.get(name.split()[0], problem.id)
    assert len(problem.text()) < 600


def test_a_key_given_twice_is_told_with_both_lines(root: Path) -> None:
    write(root, "config:\n  gcp:region: a\n  gcp:project: p\n  gcp:region: b\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert refusal.value.problems[0].found == "lines 2 and 4"


def test_what_pulumi_yaml_sets_for_other_packages_counts_where_the_stack_is_silent(root: Path) -> None:
    (root / "Pulumi.yaml").write_text(
        "name: vllm-fleet\nconfig:\n  pulumi:disable-default-providers: {value: [kubernetes]}\n  gcp:region: a\n"
        "  gcp:project: {value: mine}\n  server: {type: object, default: {}}\n"
    )
    write(root, "config:\n  gcp:project: p\n")
    assert read(root, "x").config == {
        "pulumi:disable-default-providers": '["kubernetes"]',
        "gcp:region": "a",
        "gcp:project": "p",
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("[gcp/prod, team/fleet@stable]", ("gcp/prod", "team/fleet@stable")),
        ("{imports: [gcp/prod, {team/fleet: {merge: false}}]}", ("gcp/prod", "team/fleet")),
        ("{imports: [gcp/prod], values: {pulumiConfig: {gcp:region: a}}}", ("gcp/prod", "(inline)")),
        ("{values: {pulumiConfig: {gcp:region: a}}}", ("(inline)",)),
        ("[]", ()),
    ],
)
def test_environments_are_named_because_they_are_not_opened(root: Path, given: str, named: tuple[str, ...]) -> None:
    write(root, f"environment: {given}\nconfig: {{}}\n")
    file = read(root, "x")
    assert (file.environments, file.unopened) == (named, named)
    assert bool(named) == ("Pulumi.x.esc-offline.yaml" in file.about_environments)


def test_a_stand_in_lies_under_the_stacks_own_values_as_an_environment_does(root: Path) -> None:
    write(
        root,
        "environment: [gcp/prod]\nconfig:\n  gcp:region: b\n  server: {replicas: 2, engine: {seed: 1}}\n  zones: [c]\n",
    )
    (root / "Pulumi.x.esc-offline.yaml").write_text(
        "gcp:project: p\ngcp:region: a\nzones: [a, b]\nvllm-fleet:server: {profile: record, replicas: 9, engine: {maxModelLen: 8}}\n"
        "hfToken: {fn::secret: {ciphertext: abc}}\n"
    )
    file = read(root, "x")
    assert json.loads(file.config["vllm-fleet:server"]) == {
        "profile": "record",
        "replicas": 2,
        "engine": {"maxModelLen": 8, "seed": 1},
    }
    assert json.loads(file.config["vllm-fleet:zones"]) == ["c"]
    assert (file.config["gcp:project"], file.config["gcp:region"]) == ("p", "b")
    assert (file.secret_keys, file.config["vllm-fleet:hfToken"]) == ({"vllm-fleet:hfToken"}, "[secret]")
    assert (file.unopened, file.stand_in) == ((), "Pulumi.x.esc-offline.yaml")


def test_stacks_are_listed_by_their_files(root: Path) -> None:
    write(root, "config: {}\n")
    (root / "Pulumi.a.b.yaml").write_text("")
    (root / "Pulumi.x.esc-offline.yaml").write_text("")
    assert stack_names(root) == ("a.b", "x")


DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]


def test_the_project_file_declares_no_key_of_a_stack_and_makes_no_provider_of_the_ambient_kubeconfig() -> None:
    """The engine fills in defaults of declared keys, so the program would take an empty key for one that was left out.

    Source: pulumi, sdk/go/common/workspace/config.go (mergeConfig). `value:` of a key of another namespace reaches every stack that does
    not set it itself.
    """
    assert DECLARED == {
        "pulumi:disable-default-providers": {"value": ["kubernetes"]},
        "pulumi:tags": {"value": {"workload": "llm-inference", "runs-on": "gke-autopilot"}},
    }
    for stack in stack_names(ROOT):
        assert json.loads(read(ROOT, stack).config["pulumi:disable-default-providers"]) == ["kubernetes"]
