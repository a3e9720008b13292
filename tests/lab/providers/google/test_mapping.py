"""The reviewed table says nothing that Google's descriptions or the installed pulumi-gcp contradict."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab.providers.google import formats
from lab.providers.google.documents import Field, described_services, document
from lab.providers.google.mapping import TABLE, TypeMapping, parse, table
from lab.providers.google.request import PLACEHOLDER, api_path, names_in
from tests.lab.providers.google.sdk import classes_in_infra, inputs_of_class

TYPES = sorted(table().types)
PROVIDER = "pulumi:providers:gcp"
"""Says whose credentials and which project; it is no resource of Google's."""
JSON_TYPES = {"text": ("string",), "number": ("integer", "number"), "boolean": ("boolean",), "list": ("array",)}
JSON_TYPES |= {"object": ("object",), "map": ("object",)}
BIG_NUMBERS = ("int64", "uint64")
"""Text in JSON; pulumi-gcp takes some as text and some as numbers, and both are sent right."""


def _body_field(mapping: TypeMapping, path: str) -> Field | None:
    """Where in the request's body an input goes; None where the body has no such field, or the method takes none."""
    body = document(mapping.document).method(mapping.method).body
    return None if body is None else body.at(api_path(mapping, path))


def _inputs(type_: str) -> dict[str, str]:
    return inputs_of_class(classes_in_infra()[type_])


def _sent(type_: str) -> Iterator[tuple[str, str]]:
    """Inputs that are in the request's body, with what they hold."""
    mapping = table().types[type_]
    for path, kind in _inputs(type_).items():
        parents = [path] + [path[: found.start()] for found in re.finditer(r"\.", path)]
        if path not in names_in(mapping) and not {*mapping.provider_only, *mapping.unreviewed}.intersection(parents):
            yield path, kind


def test_every_google_cloud_class_of_infra_is_in_the_table_and_no_other() -> None:
    assert classes_in_infra().keys() == table().types.keys() | {PROVIDER}


@pytest.mark.parametrize("type_", TYPES)
def test_every_input_that_pulumi_gcp_knows_is_a_field_of_the_api_or_explained(type_: str) -> None:
    mapping = table().types[type_]
    assert [path for path, _ in _sent(type_) if _body_field(mapping, path) is None] == []


@pytest.mark.parametrize("type_", TYPES)
def test_every_input_is_sent_as_the_type_that_the_api_takes_or_said_to_be_converted(type_: str) -> None:
    mapping = table().types[type_]
    odd = []
    for path, kind in _sent(type_):
        rename, field = mapping.fields.get(path), _body_field(mapping, path)
        if field is None or (rename and (rename.converted or rename.first or rename.key)):
            continue
        single = field.item() if rename and rename.to.endswith("[]") else field
        as_number = kind in ("text", "number") and single.schema.get("format") in BIG_NUMBERS
        if single.type not in (*JSON_TYPES[kind], "any") and not as_number:
            odd.append((path, kind, single.type))
    assert odd == []


@pytest.mark.parametrize("type_", TYPES)
def test_every_entry_is_about_an_input_that_exists(type_: str) -> None:
    mapping, known = table().types[type_], _inputs(type_)
    named = {*mapping.fields, *mapping.provider_only, *mapping.unreviewed, *mapping.values, *names_in(mapping)}
    named |= {path for one in mapping.one_of for path in one.inputs}
    named |= {path for conflict in mapping.conflicts for path in (conflict.field, *conflict.inputs)}
    named |= {*mapping.named_if_absent}
    named |= {f"{path}.{value.key}" for path, value in mapping.fields.items() if value.key}
    assert sorted(named - known.keys() - table().everywhere.keys()) == []


@pytest.mark.parametrize("type_", TYPES)
def test_no_entry_repeats_what_holds_without_it(type_: str) -> None:
    mapping = table().types[type_]
    for path, value in mapping.fields.items():
        rest = {other: rename for other, rename in mapping.fields.items() if other != path}
        without = TypeMapping(
            read=(), document=mapping.document, method=mapping.method, inside=mapping.inside, fields=rest
        )
        reshaped = value.converted or value.first or value.key or value.to.endswith("[]")
        assert reshaped or api_path(without, path) != api_path(mapping, path), path


@pytest.mark.parametrize("type_", TYPES)
def test_the_parameters_of_the_url_are_the_methods_own_and_all_that_it_needs(type_: str) -> None:
    mapping = table().types[type_]
    method = document(mapping.document).method(mapping.method)
    assert mapping.parameters.keys() <= method.parameters.keys()
    # There is no URL without them.
    required = {name for name, value in method.parameters.items() if value.raw.get("required")}
    assert required <= mapping.parameters.keys()
    for name, template in mapping.parameters.items():
        pattern = method.parameters[name].raw.get("pattern")
        filled = PLACEHOLDER.sub("one", template)
        assert pattern is None or re.fullmatch(pattern, filled), (name, filled, pattern)


@pytest.mark.parametrize("type_", TYPES)
def test_what_a_description_is_quoted_to_say_it_says(type_: str) -> None:
    mapping = table().types[type_]
    for path, rule in mapping.values.items():
        assert bool(rule.says) != bool(rule.source), f"{path}: either the description's words or another source"
        if rule.says:
            field = _body_field(mapping, path)
            assert field is not None, path
            told = [field.description]
            if field.type == "array":
                told.append(field.item().description)
            assert any(" ".join(rule.says.split()) in one for one in told), (path, told)


@pytest.mark.parametrize("type_", TYPES)
def test_every_rule_about_a_value_says_exactly_one_thing_that_is_known_here(type_: str) -> None:
    for path, rule in table().types[type_].values.items():
        said = [rule.format, rule.values, rule.pattern, rule.max_characters, rule.max_bytes]
        said.append(rule.min is not None or rule.max is not None)
        assert sum(map(bool, said)) == 1, path
        assert not rule.format or rule.format in formats.FORMATS, path


@pytest.mark.parametrize("type_", TYPES)
def test_every_type_names_what_it_was_compared_with(type_: str) -> None:
    for one in table().types[type_].read:
        assert re.match(r"[PG] [a-z]+/[a-z_]+\.(go|yaml)\b", one), one


def test_every_input_listed_for_all_types_is_one_of_some() -> None:
    known = {path for type_ in TYPES for path in _inputs(type_)}
    assert table().everywhere.keys() <= known


def test_services_without_a_description_have_none() -> None:
    assert not table().services.keys() & described_services()


def test_roles_are_written_as_roles() -> None:
    assert [formats.iam_role(role) for role in table().roles] == [None] * len(table().roles)


def test_a_word_that_means_nothing_is_refused_with_its_place() -> None:
    entry = {"read": [], "document": "a", "method": "b", "provideronly": {}}
    with pytest.raises(ValueError, match=r"gcp:a: provideronly .*: conflicts, document"):
        parse({"reviewed": "", "everywhere": {}, "services": {}, "roles": {}, "types": {"gcp:a": entry}})
    entry = {"read": [], "document": "a", "method": "b", "fields": {"x": {"too": "y"}}}
    with pytest.raises(ValueError, match=r"gcp:a fields\.x: too "):
        parse({"reviewed": "", "everywhere": {}, "services": {}, "roles": {}, "types": {"gcp:a": entry}})


def test_the_table_was_reviewed_against_what_is_installed() -> None:
    from importlib.metadata import version

    for package in ("google-api-python-client", "pulumi-gcp"):
        assert f"{package} {version(package)}" in table().reviewed, f"compare {TABLE.name} with {package} again"
