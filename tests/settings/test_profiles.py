"""The profiles: what each reproduces, needs and teaches, and that their figures are the planner's."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from facts import figures, ledger
from facts.ledger import LedgerError
from facts.lessons.deliberate import DELIBERATE_EXCEPTIONS
from facts.machines import B200
from facts.memory import (
    CacheLayout,
    cache_gib_per_gpu,
    pool_blocks,
    running_blocks_per_request,
    shortest_prompt_prefix_caching_can_hit,
    startup_concurrency,
    startup_logits_gib,
)
from facts.models import of_the_article
from settings import profile_file
from settings.checks.lessons import lessons
from settings.derived.figures import serving_shape
from settings.profiles import NAMES, Profile, UnknownProfileError, profile, validated
from settings.sections.engine import Engine, effective_environment, effective_flags
from tests.support.phases import PHASES
from tests.support.rows import each_row
from tests.support.settings import make_settings

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "profiles.md"
OF_THE_ARTICLE = [name for name in NAMES if profile(name).reproduces]
OWN = [name for name in NAMES if not profile(name).reproduces]


def layout(engine: Engine) -> CacheLayout:
    return CacheLayout(
        kv_cache_dtype=engine.kv_cache_dtype or "auto",
        speculative_tokens=engine.speculative_tokens,
        prefix_caching=engine.enable_prefix_caching is True,
    )


def cache_gib(engine: Engine) -> float:
    logits_gib = startup_logits_gib(
        max_num_seqs=engine.max_num_seqs or engine.release.sequences(B200),
        max_num_batched_tokens=engine.max_num_batched_tokens or engine.release.batched_tokens(B200),
        vocabulary=of_the_article().vocabulary,
        drafts=engine.speculative_tokens > 0,
    )
    share = engine.gpu_memory_utilization or 0.9
    return cache_gib_per_gpu(gpu_memory_utilization=share, logits_gib=logits_gib, gpu_memory_gib=B200.memory_gib)


def test_the_record_has_the_articles_flags_and_what_its_prose_adds() -> None:
    published = ledger.entry("shapes", "shapes", "record")
    from_the_prose = {"mamba-cache-mode": "align", "mamba-block-size": 8}
    engine = profile("record").engine
    assert effective_flags(engine) == {**published["flags"], **from_the_prose, "tensor-parallel-size": 1}
    assert effective_environment(engine) == published["env"]


def published_flags(row: str) -> dict[str, Any]:
    """Flags of a row of the ledger, those of the shapes that its own rests on included."""
    file, _, id_ = row.partition(".")
    shape = ledger.entry("shapes", "shapes", ledger.entry(file, "figures", id_)["shape"])
    flags = dict(shape["flags"])
    while base := shape.get("base"):
        shape = ledger.entry("shapes", "shapes", base)
        flags = {**shape["flags"], **flags}
    return flags


@each_row(
    ("row", "name", "changes"),
    [
        *((profile(name).reproduces, name, {}) for name in OF_THE_ARTICLE),
        *((row, "record", changes) for row, changes in PHASES.items()),
    ],
)
def test_a_profile_or_phase_of_the_article_repeats_every_flag_of_its_row(
    row: str, name: str, changes: dict[str, Any]
) -> None:
    flags, given = published_flags(row), effective_flags(profile(name).engine.but(changes))
    assert {flag: given.get(flag) for flag in flags} == flags


@pytest.mark.parametrize(
    "row", ["phases.no-mtp-095", "phases.mtp2-095", "phases.mtp1-095", "phases.tp8", "phases.dp8-4096"]
)
def test_a_phase_is_put_beside_its_row(row: str) -> None:
    found = figures.match(serving_shape(make_settings(server={"replicas": 1, "engine": PHASES[row]}))).figure
    assert found is not None
    assert found.id == row


@each_row("name", OF_THE_ARTICLE)
def test_a_profile_of_the_article_says_what_it_had_to_assume(name: str) -> None:
    assert profile(name).assumptions


@each_row("name", NAMES)
def test_a_profile_breaks_exactly_the_lessons_of_its_exceptions_and_none_is_refused(name: str) -> None:
    chosen = profile(name)
    own_model = {"id": chosen.model_id, "revision": "a" * 40, "sizeGb": 240.0} if chosen.model is None else None
    settings = make_settings(server={"replicas": 1, "profile": name}, model=own_model)
    broken = (one for one in lessons(settings) if one.severity != "note")
    found = {problem.id: problem.severity for problem in broken}
    assert set(found) == {one.lesson for one in DELIBERATE_EXCEPTIONS if one.row == chosen.reproduces}
    assert set(found.values()) <= {"deliberate"}


def test_every_exception_is_of_a_run_that_a_profile_reproduces() -> None:
    assert {one.row for one in DELIBERATE_EXCEPTIONS} <= {profile(name).reproduces for name in NAMES}
    assert all(one.reason for one in DELIBERATE_EXCEPTIONS)


@each_row("name", NAMES)
def test_a_profile_uses_all_eight_gpus_and_serves_what_it_declares(name: str) -> None:
    chosen = profile(name)
    assert chosen.name == name
    assert chosen.engine.gpus == 8
    assert chosen.context_tokens <= (chosen.engine.max_model_len or 0)


def test_the_tuned_profile_holds_every_sequence_it_admits_at_full_length() -> None:
    engine = profile("tuned").engine
    assert engine.max_num_seqs is not None
    assert engine.max_model_len is not None
    fits = startup_concurrency(layout(engine), cache_gib(engine), engine.max_model_len)
    assert engine.max_num_seqs <= fits
    assert engine.max_num_seqs * engine.data_parallel_size >= profile("tuned").concurrency_per_replica


def test_the_tuned_profile_captures_graphs_for_all_its_sequences() -> None:
    engine = profile("tuned").engine
    assert engine.max_num_seqs is not None
    assert engine.max_cudagraph_capture_size == engine.max_num_seqs * (1 + engine.speculative_tokens)


@pytest.mark.parametrize("name", OWN)
def test_prefix_caching_is_on_only_where_a_prompt_can_hit(name: str) -> None:
    engine = profile(name).engine
    assert engine.max_model_len is not None
    shortest = shortest_prompt_prefix_caching_can_hit(layout(engine))
    assert shortest is None or shortest <= engine.max_model_len
    assert (engine.mamba_cache_mode == "align") is (shortest is not None)


@pytest.mark.parametrize(("name", "tokens"), [("serve-chat", 8_192), ("serve-code", 131_072), ("serve-batch", 8_192)])
def test_a_serving_profile_declares_no_more_load_than_memory_runs_at_once(name: str, tokens: int) -> None:
    chosen = profile(name)
    held = layout(chosen.engine)
    running = pool_blocks(held, cache_gib(chosen.engine)) // running_blocks_per_request(held, tokens)
    assert chosen.concurrency_per_replica <= running * chosen.engine.data_parallel_size


@pytest.mark.parametrize("name", OWN)
def test_every_difference_to_the_record_is_declared_and_no_other(name: str) -> None:
    record, chosen = profile("record").engine, profile(name)
    changed = {
        f"engine.{field.alias}"
        for key, field in Engine.model_fields.items()
        if getattr(record, key) != getattr(chosen.engine, key)
    }
    declared = [difference.setting for difference in chosen.differences]
    assert len(declared) == len(set(declared))
    assert {setting for setting in declared if setting.startswith("engine.")} == changed


@pytest.mark.parametrize("name", OWN)
def test_a_declared_difference_states_the_values_of_both_engines(name: str) -> None:
    record, chosen = profile("record").engine, profile(name)
    fields = {f"engine.{field.alias}": key for key, field in Engine.model_fields.items()}
    for difference in chosen.differences:
        if difference.setting in fields:
            key = fields[difference.setting]
            assert difference.record.startswith(written(getattr(record, key))), difference
            assert difference.here.startswith(written(getattr(chosen.engine, key))), difference


def written(value: object) -> str:
    if value is None:
        return "left out"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_an_unknown_name_is_answered_with_the_nearest_and_all_others() -> None:
    with pytest.raises(UnknownProfileError, match="did you mean serve-chat") as caught:
        profile("serve-chatt")
    assert all(name in str(caught.value) for name in NAMES)


def test_a_profile_is_built_once() -> None:
    first: Profile = profile("tuned")
    assert profile("tuned") is first


def edited(path: str, value: object) -> dict[str, Any]:
    """The file's content with one value replaced."""
    file = copy.deepcopy(dict(profile_file.document()))
    *above, last = path.split("/")
    part: dict[str, Any] = file
    for key in above:
        part = part[key]
    part[last] = value
    return file


def test_looking_up_a_profile_validates_that_one_only() -> None:
    file = edited("profiles/tuned/engine/maxNumSeqs", 0)
    assert validated(profile_file.resolved(file, "record")) == profile("record")
    with pytest.raises(LedgerError):
        validated(profile_file.resolved(file, "tuned"))


@each_row(
    ("path", "value", "where"),
    [
        ("profiles/tuned/engine/maxNumSeqs", 70_000, "tuned: engine.maxNumSeqs: .*65536.* got 70000"),
        ("profiles/tuned/engine/maxNumSequences", 288, "tuned: engine.maxNumSequences: "),
        ("profiles/tuned/engine", None, "tuned: engine: must be a mapping, got None"),
        ("profiles/tuned/contexttokens", 1536, "tuned: contexttokens: unknown key; .*contextTokens"),
        ("profiles/tuned/name", "other", "tuned: name: unknown key"),
        ("profiles/tuned/concurrencyPerReplica", "2000", "tuned: concurrencyPerReplica: .* got '2000'"),
        ("profiles/tuned/differences", [{"setting": "engine.seed"}], "tuned: differences.0.record: "),
        (
            "profiles/tuned/differences",
            [{"shared": "nothing"}],
            "tuned: differences: 'nothing' does not exist; .*reasoning",
        ),
        ("profiles/tuned/over", "recrod", "tuned: over: 'recrod' does not exist; .*record, tuned"),
        ("profiles/tuned/over", "tuned", "tuned: over: a circle: tuned over tuned"),
        ("profiles/record/over", "tuned", "record: over: a circle: tuned over record over tuned"),
        ("profiles/tuned/model", "qwen4", "tuned: model: 'qwen4' is not in the catalog"),
        ("profiles/tuned/title", "{phases.none.total_tokens_per_s:,}", "tuned: title: .*no entry 'none'"),
        ("profiles/tuned/title", "{phases.tp8.tokens}", r"tuned: title: \{phases.tp8.tokens\} is not a figure"),
        ("profiles/tuned/title", "{22,300} tok/s", r"tuned: title: \{22,300\} is not a figure"),
        ("profiles/tuned/title", "{phases.tp8.title:,}", "tuned: title: .* not of that format"),
        ("profiles/tuned/title", 7, "tuned: title: .* got 7"),
        ("profiles/tuned", {"over": "record"}, "tuned: title: [^{]*$"),
        ("shared", None, "shared: must be a mapping"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_profile_and_key(path: str, value: object, where: str) -> None:
    with pytest.raises(LedgerError, match=f"^settings/profiles.yaml, {where}") as caught:
        validated(profile_file.resolved(edited(path, value), "tuned"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("over", ["record", "tuned"])
def test_a_profile_inherits_what_is_served_and_nothing_that_is_said(over: str) -> None:
    file = edited("profiles/new", {"over": over, "title": "new", "engine": {"seed": 1, "speculative": None}})
    new, base = validated(profile_file.resolved(file, "new")), profile(over)
    assert new.engine == base.engine.but({"seed": 1, "speculative": None})
    served = ("model", "model_id", "workload", "context_tokens", "concurrency_per_replica")
    assert [getattr(new, key) for key in served] == [getattr(base, key) for key in served]
    assert (new.reproduces, new.assumptions, new.differences) == (None, (), ())


def test_a_text_takes_its_figures_from_the_ledger() -> None:
    total = ledger.entry("phases", "figures", "tp8")["total_tokens_per_s"]
    file = edited("profiles/tuned/title", "{phases.tp8.total_tokens_per_s:,} and {phases.tp8.total_tokens_per_s}")
    assert profile_file.resolved(file, "tuned")["title"] == f"{total:,} and {total}"


def test_every_shared_item_is_used() -> None:
    file = profile_file.document()
    entries = file["profiles"].values()
    items = [item for one in entries for key in ("assumptions", "differences") for item in one.get(key, ())]
    assert {item["shared"] for item in items if isinstance(item, dict) and "shared" in item} == set(file["shared"])
    assert set(file) == {"shared", "profiles"}


def test_the_guide_names_every_profile_with_its_row() -> None:
    text = GUIDE.read_text()
    for name in NAMES:
        assert f"`{name}`" in text
        row = profile(name).reproduces
        assert row is None or f"`{row}`" in text


def test_the_guide_gives_every_difference_with_its_reason_and_its_evidence() -> None:
    rows = [line for line in GUIDE.read_text().splitlines() if line.startswith("|")]
    for name in OWN:
        for difference in profile(name).differences:
            row = f"| `{difference.setting}` | {difference.record} | {difference.here} | {difference.why} | {difference.evidence} |"
            assert row in rows, f"{name}: docs/profiles.md lacks\n{row}"
