from __future__ import annotations

import base64
import json

from fleet.preview.record.redact import KUBERNETES_SECRET, Redactor
from fleet.preview.record.values import UNKNOWN, Secret


def test_marked_secrets_and_unknowns_become_words_at_any_depth() -> None:
    value = {"a": [Secret("hush"), {"b": UNKNOWN}], "c": (1, 2.5, True, None)}
    assert Redactor().value(value) == {"a": ["[secret]", {"b": "[unknown]"}], "c": [1, 2.5, True, None]}


def test_plaintexts_are_found_inside_text_keys_and_base64() -> None:
    redactor = Redactor(["hush-hush"])
    encoded = base64.b64encode(b"hush-hush").decode()
    shown = json.dumps(redactor.value({"line": "token=hush-hush;", "hush-hush": 1, "data": [encoded]}))
    assert "hush-hush" not in shown
    assert encoded not in shown
    assert redactor.value("token=hush-hush;") == "token=[secret];"


def test_a_secret_number_is_hidden_where_it_stands_alone() -> None:
    assert Redactor(["12"]).value([12, "12", 120, "120", True]) == ["[secret]", "[secret]", 120, "120", True]


def test_a_longer_secret_goes_before_one_it_contains() -> None:
    assert Redactor(["abcd", "abcdefgh"]).text("x abcdefgh y abcd") == "x [secret] y [secret]"


def test_without_plaintexts_text_stays() -> None:
    assert Redactor(["", "[secret]"]).text("as it is") == "as it is"


def test_a_kubernetes_secret_keeps_its_keys_and_loses_its_values() -> None:
    inputs = {
        "kind": "Secret",
        "metadata": {"name": "hf-token"},
        "stringData": Secret({"token": "hush"}),
        "data": {"other": Secret("aHVzaA==")},
    }
    manifest = Redactor().manifest(KUBERNETES_SECRET, inputs)
    assert manifest["stringData"] == {"token": "[secret]"}
    assert base64.b64decode(manifest["data"]["other"]) == b"[secret]"
    assert manifest["metadata"] == {"name": "hf-token"}


def test_plain_data_of_a_kubernetes_secret_is_hidden_too() -> None:
    manifest = Redactor().manifest(KUBERNETES_SECRET, {"stringData": {"token": "never marked"}})
    assert manifest == {"stringData": {"token": "[secret]"}}


def test_other_resources_only_lose_their_secrets() -> None:
    manifest = Redactor().manifest("kubernetes:core/v1:ConfigMap", {"data": {"a": "b", "c": Secret("d")}})
    assert manifest == {"data": {"a": "b", "c": "[secret]"}}
