from __future__ import annotations

import dataclasses
import io

import pytest

from fleet.rehearse.apply.inventory import Retained
from fleet.rehearse.report.model import RehearsalReport
from fleet.rehearse.report.text import print_text, subject_in_words
from fleet.rehearse.results import Figure
from fleet.report.terminal import Paper
from tests.fleet.rehearse.report.samples import URN, bring_up, gateway_skipped, preempt_four, sample_report


def shown(report: RehearsalReport, width: int = 100, *, styled: bool = False, written: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=styled), report, written=written)
    return out.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_passes_the_margin(width: int) -> None:
    for line in shown(sample_report(), width).splitlines():
        assert len(line) <= width, line


def test_the_verdict_stands_first_and_says_how_long_it_took() -> None:
    lines = shown(sample_report()).splitlines()
    assert lines[0].startswith("vllm-fleet / spot")
    assert "Kubernetes v1.36.3 · kwok v0.8.0 · etcd 3.6.6 · 60 simulated seconds a second" in lines[1]
    assert lines[3] == "✗ 2 of 5 drills failed, 1 skipped, 1 error, 1 warning · 6 min 12 s"
    assert "✓ 1 drill passed" in shown(sample_report(preempt_four()))


def test_every_drill_has_its_verdict_title_and_time() -> None:
    text = shown(sample_report())
    rows = {line.split()[1]: one_line(line) for line in text.splitlines() if line[:3] in ("  ✓", "  ✗", "  –")}
    assert rows["bring-up"] == "✓ bring-up First bring-up 43 s"
    assert rows["thirteenth"] == "✗ thirteenth A thirteenth server 21 s"
    assert rows["reservation-not-yet"].endswith("1 min 25 s")
    assert rows["gateway-prerequisites"] == "– gateway-prerequisites A gateway without its prerequisites"
    assert "skipped: the stack has no gateway" in text


def test_what_did_not_hold_is_told_with_what_was_seen() -> None:
    text = one_line(shown(sample_report()))
    assert "✗ the message says what to do: 0/12 nodes are available" in text
    assert "broke off: waited 40 simulated minutes for 12 Ready servers; 0 are Ready of 12" in text
    assert "the quota refuses a thirteenth" not in text  # it held


def test_figures_are_cut_to_three_lines_and_say_how_many_are_left() -> None:
    assert "requests lost with one retry 0 · and 2 more" in shown(sample_report(), 80)
    wide = shown(sample_report(), 120)
    assert "more" not in wide.split("To mend")[0].replace("never more", "")
    many = dataclasses.replace(
        preempt_four(), figures=tuple(Figure(name=f"figure {number}", value=number) for number in range(90))
    )
    rows = [line for line in shown(sample_report(many), 80).splitlines() if "figure " in line]
    assert len(rows) == 3
    assert "more" in rows[-1]


def test_findings_come_with_their_fix_and_the_drill_that_came_upon_them() -> None:
    text = one_line(shown(sample_report()))
    assert "! Deployment qwen35-server (error, in thirteenth)" in text
    assert "→ add a second zone to capacity.zones, or a ladder with flex-start below Spot" in text
    assert text.index("(error,") < text.index("(warning,")


def test_what_stays_after_destroy_has_its_price_or_says_that_there_is_none() -> None:
    text = one_line(shown(sample_report()))
    assert "Left after pulumi destroy (2) at least $3.20 a month" in text
    assert "Bucket vllm-fleet-spot-results: price unknown (depends on its content), retain_on_delete" in text


def test_limits_scales_advice_and_files_are_named() -> None:
    text = one_line(shown(sample_report(), written=("out/rehearsal.html",)))
    assert "No GPU, no vLLM and no Google Cloud took part" in text
    assert "nothing enforces them here" in text
    assert "✓ 128 machines: 26 s of 30 s · control plane 3.1 s" in text
    assert "advice to clients: Repeat a request once" in text
    assert text.endswith("→ out/rehearsal.html")


def test_a_name_wider_than_its_column_has_a_line_of_its_own() -> None:
    drill = dataclasses.replace(bring_up(), name="a-name-that-is-much-longer-than-a-third-of-the-page")
    lines = shown(sample_report(drill), 60).splitlines()
    row = next(index for index, line in enumerate(lines) if drill.name in line)
    assert lines[row].endswith("43 s")
    assert lines[row + 1].strip() == "First bring-up"


def test_styles_are_for_terminals_alone() -> None:
    assert "\x1b[" in shown(sample_report(), styled=True)
    assert "\x1b[" not in shown(sample_report())


def test_ascii_streams_get_look_alikes() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    drill = dataclasses.replace(gateway_skipped(), skipped="a gateway in Zürich")
    print_text(Paper(stream=out, width=80, styled=False), sample_report(drill))
    out.seek(0)
    text = out.read()
    assert "- gateway-prerequisites" in text
    assert "a gateway in Z?rich" in text


@pytest.mark.parametrize(
    ("subject", "words"),
    [(URN, "PersistentVolumeClaim weights-reader-b"), ("Job/weights", "Job weights"), ("the stack", "the stack")],
)
def test_a_subject_reads_as_kind_and_name(subject: str, words: str) -> None:
    assert subject_in_words(subject) == words


def test_what_is_left_for_one_reason_shares_a_line_with_every_name() -> None:
    apis = tuple(
        Retained(kind="API", name=f"{name}.googleapis.com", why="others may use it", usd_per_month=0.0)
        for name in ("compute", "container", "iam")
    )
    image = Retained(kind="Disk image", name="weights", why="the release", usd_per_month=None)
    text = one_line(shown(dataclasses.replace(sample_report(), retained=(*apis, image))))
    assert "Left after pulumi destroy (4) price unknown" in text
    assert "3 APIs: nothing, others may use it compute.googleapis.com, container.googleapis.com, iam" in text
    assert text.index("Disk image weights: price unknown") < text.index("3 APIs")


def test_a_stack_that_never_came_up_is_told_once() -> None:
    why = "the stack did not come up: the Job has failed"
    first = dataclasses.replace(bring_up(), gave_up=why)
    second = dataclasses.replace(preempt_four(), gave_up=why)
    text = one_line(shown(sample_report(first, second)))
    assert text.count(why) == 1
    assert "broke off: as bring-up did" in text


def test_the_speed_says_what_a_second_of_the_controllers_reads_as() -> None:
    text = one_line(shown(dataclasses.replace(sample_report(), speed=120.0)))
    assert "a second of theirs reads as 120" in text


def test_a_drill_without_figures_says_what_held() -> None:
    drill = dataclasses.replace(bring_up(), figures=())
    assert "✓ bring-up First bring-up 43 s every resource starts after all it needs" in one_line(
        shown(sample_report(drill))
    )
