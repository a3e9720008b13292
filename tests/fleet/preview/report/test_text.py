"""The terminal's report: everything in it, nothing beyond the margin, no secret."""

from __future__ import annotations

import io
import re

import pytest

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies, Report
from fleet.preview.report.text import print_text
from fleet.report.terminal import Paper
from tests.fleet.preview.sample_report import TOKEN, sample_recording, sample_report


def shown(report: Report, width: int = 100, *, styled: bool = False) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=styled), report)
    return out.getvalue()


def test_the_headline_says_size_model_price_and_rate() -> None:
    head = shown(sample_report()).splitlines()[:5]
    assert head[0].startswith("vllm-fleet / test")
    assert head[0].endswith("offline preview")
    assert "12 A4 nodes (96 B200) on Spot in europe-west4-b" in head[1]
    assert "Qwen/Qwen3.5-27B-FP8 @ 2e1b21350ce5, vLLM 0.18.1, profile record" in head[2]
    assert "1,103,941 tok/s published" in head[3]
    assert "an hour" in head[3]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_passes_the_margin_unless_it_holds_a_word_that_long(width: int) -> None:
    commands = ("→ ", "! vllm-fleet:")
    for line in shown(sample_report(), width).splitlines():
        assert len(line) <= width or line.strip().startswith(commands), line


def test_rates_are_total_and_output_with_their_label() -> None:
    text = shown(sample_report())
    assert "1,103,941 tok/s total · 367,980 tok/s output · TPOT median 46 ms · TTFT median 5,600 ms" in text
    assert "published, vLLM 0.18.0" in text
    assert "engine_version (0.18.0 published, 0.18.1 here)" in text


def test_a_node_count_that_was_never_measured_has_no_figure_but_the_models_estimate_under_its_own_name() -> None:
    text = " ".join(shown(sample_report(server={"replicas": 10})).split())
    assert "no published figure for 10 nodes; there is one for 1, 2, 4, 8 and 12 nodes" in text
    assert text.count("tok/s total") == 1
    assert "model's estimate (predicted): " in text


def test_a_paused_stack_has_neither_figure_nor_estimate() -> None:
    assert "tok/s total" not in shown(sample_report(server={"replicas": 0}))


def test_another_profile_is_unproven_and_the_nearest_row_keeps_its_label() -> None:
    text = shown(sample_report(server={"replicas": 12, "profile": "serve-chat"}))
    assert "no published figure for this shape" in text
    assert "unproven: differs in" in text
    assert "nearest: twelve nodes" in text
    assert "(published, vLLM 0.18.0)" in " ".join(text.split())
    assert "without a published figure there is no price of a million tokens" in text


def test_the_bill_has_its_total_its_unknown_prices_and_what_stays() -> None:
    text = shown(sample_report())
    assert "12 nodes × $32.61  $391.32" in text
    assert "unknown is not zero" in text
    assert "total" in text
    assert "at least $39" in text
    assert "at 0 replicas: " in text
    assert "after destroy: " in text


def test_an_unpriced_mode_says_why() -> None:
    text = " ".join(shown(sample_report(capacity={"mode": "flex-start", "runDurationSeconds": 86400})).split())
    assert "nodes: no dated price for flex-start A4 was found" in text


def test_creates_are_marked_and_counted() -> None:
    text = shown(sample_report())
    assert "+ 10 to create: 6 resources, 2 components, 1 provider, the stack" in text
    assert text.count("\n + ") == 7  # four APIs share a line


def test_a_danger_stands_above_the_tree() -> None:
    request = {"startTime": "2027-01-04T06:00:00Z", "durationDays": 7, "nodes": 12, "totalUsd": 806400.0}
    capacity = {"mode": "calendar", "reservation": "january", "usdPerNodeHour": 400.0, "create": request}
    text = shown(sample_report(capacity=capacity))
    assert text.index("!! $806,400.00") < text.index(" + Stack")


def test_findings_say_what_to_write() -> None:
    text = shown(sample_report(server={"replicas": 1, "profile": "serve-chat", "engine": {"maxNumSeqs": 8000}}))
    assert "To look at (" in text
    assert "! vllm-fleet:server.engine.maxNumSeqs = 8000" in text
    assert "→ maxNumSeqs:" in text


def test_policies_are_told_in_each_state() -> None:
    mandatory = Violation(
        policy="no-public-service", level="mandatory", urn="urn:x::server", message="type\nLoadBalancer"
    )
    advisory = Violation(policy="budget", level="advisory", urn="", message="no budget")
    judged = shown(sample_report(policies=Policies(state="judged", violations=(advisory, mandatory))))
    assert "1 mandatory violated, 1 advisory" in judged
    assert judged.index("✗ no-public-service: server") < judged.index("✗ budget")
    assert "mend what the mandatory policies name" in judged
    assert "pulumi preview" not in judged
    assert "none violated" in shown(sample_report(policies=Policies(state="judged")))
    assert "not asked" in shown(sample_report(policies=Policies(state="skipped")))
    assert "no policy pack in policy/" in shown(sample_report())


def test_it_says_what_it_is_and_what_comes_next() -> None:
    text = " ".join(shown(sample_report(stand_in_project=True)).split())
    assert "no provider checked it, and nothing was compared with what is live" in text
    assert "→ pulumi config set gcp:project MY-PROJECT --stack test" in text
    assert "→ pulumi preview --stack test" in text


def test_both_modes_read_the_same_but_for_the_sentence_about_the_mode() -> None:
    preview = shown(sample_report(recording=sample_recording("preview")))
    known = shown(sample_report(recording=sample_recording("known")))
    assert "left unknown" in preview
    assert "made up where the cloud" in known
    cut = "Ids and addresses are"
    assert preview[: preview.index(cut)] == known[: known.index(cut)]


def test_no_secret_is_printed() -> None:
    assert TOKEN not in shown(sample_report())


def test_a_stream_without_unicode_gets_look_alikes_of_the_same_width() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    print_text(Paper(stream=out, width=100, styled=False), sample_report())
    out.seek(0)
    text = out.read()
    assert " + |- OwnPlatform platform" in text
    assert [len(line) for line in text.splitlines()] == [len(line) for line in shown(sample_report()).splitlines()]


def test_a_terminal_gets_the_same_text_with_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-256color", "COLORTERM": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = shown(sample_report(), styled=True)
    assert "\x1b[" in styled
    assert re.sub(r"\x1b\[[\d;]*m", "", styled) == shown(sample_report())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:\d+;)*3\d", shown(sample_report(), styled=True))
