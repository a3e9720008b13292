from __future__ import annotations

import pytest
import yaml

from fleet.preview.yaml_text import to_yaml
from tests.support.rows import each_row

NOT_TEXT = "8 1e3 0.9 yes No on null ~ 0x1f 012 1_000 12:30 2026-01-01 .5 -1 true 2e1 +1 .inf"


@each_row("text", ["", *NOT_TEXT.split()])
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert to_yaml({"a": text}) == f'a: "{text}"\n'


@pytest.mark.parametrize("text", ["900Gi", "--flag", "v1.4.0", "docker.io/vllm/vllm-openai:v0.18.1", "hello world"])
def test_ordinary_text_is_not_quoted(text: str) -> None:
    assert to_yaml({"a": text}) == f"a: {text}\n"


def test_scripts_are_literal_blocks() -> None:
    assert to_yaml({"run.sh": "#!/bin/sh\nset -eu\n"}) == "run.sh: |\n  #!/bin/sh\n  set -eu\n"


def test_names_come_first_and_other_keys_stay_in_order() -> None:
    text = to_yaml({"spec": {"image": "i", "name": "web"}, "kind": "K", "apiVersion": "v1", "metadata": {"name": "x"}})
    assert text == "apiVersion: v1\nkind: K\nmetadata:\n  name: x\nspec:\n  name: web\n  image: i\n"


def test_equal_values_are_written_out_and_long_lines_are_not_folded() -> None:
    shared = {"app": "x"}
    text = to_yaml({"a": shared, "b": shared, "c": "word " * 200 + "end"})
    assert "&" not in text
    assert len(text.splitlines()) == 5


@pytest.mark.parametrize(
    "value", ["tab\there\n", " leading\nspace", "trailing \nspace\n", "é ü\n", "a: b\n# c", "@x", "*x"]
)
def test_odd_text_survives_the_round_trip(value: str) -> None:
    assert yaml.safe_load(to_yaml({"a": value})) == {"a": value}
