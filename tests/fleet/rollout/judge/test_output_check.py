"""The output check: what counts as the same, as right, as sound, and how few of them chance excuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.rollout.judge.answers import Answer, Answers, Prompt, digest, prompts, require_answers
from fleet.rollout.judge.chance import more_by_chance
from fleet.rollout.judge.output_check import reasons
from fleet.rollout.judge.verdict import Limits
from tests.fleet.rollout.judge.sides import answers, good

EVERY = list(prompts().values())
SUMS = [one for one in EVERY if one.result is not None]


def of_some(number: int, change: Callable[[Answer], Answer], among: list[Prompt] = EVERY) -> Answers:
    """Answers of the first so many changed."""
    chosen = {one.id for one in among[:number]}
    return answers(lambda prompt, answer: change(answer) if prompt.id in chosen else answer)


def verdicts(old: Answers | None, canary: Answers | None) -> dict[str, str]:
    return {one.id: one.verdict for one in reasons(old, canary, Limits())}


def other_tokens(answer: Answer) -> Answer:
    return answer.model_copy(update={"tokens": (answer.tokens[0], 1, *answer.tokens[2:])})


def test_the_prompts_are_what_they_say() -> None:
    assert (len(EVERY), len(SUMS)) == (48, 24)
    by_text = {one.text.rpartition("\n")[2]: one.result for one in SUMS}
    assert (by_text["483 + 129 ="], by_text["2024 - 1969 ="], by_text["19 * 11 ="]) == (612, 55, 209)
    long = prompts()["long-code"]
    assert long.text.count("4711") == 1
    # A token a word at least: all three begin with more than a hybrid model's block of 1,584, and fit 2,560.
    every = [one.text for one in EVERY if one.id.startswith("long-")]
    shared = next(at for at, letters in enumerate(zip(*every, strict=False)) if len(set(letters)) > 1)
    assert 1_584 / 1.1 < len(long.text[:shared].split()) < len(long.text.split()) < 1_900


def test_fishers_test_is_exact() -> None:
    # Source: by hand. C(24,19) C(24,24) + C(24,18) C(24,24) ... of C(48,43): all five that are lost on one side.
    assert more_by_chance(0, 24, 5, 24) == pytest.approx(42_504 / 1_712_304)
    assert more_by_chance(0, 24, 0, 24) == 1
    assert more_by_chance(0, 3_840, 5, 3_840) == pytest.approx(0.5**5, rel=0.01)
    assert more_by_chance(40_000, 40_000, 40_000, 40_000) == pytest.approx(1)


@pytest.mark.parametrize(("lost", "found"), [(0, "promote"), (4, "promote"), (5, "undecided"), (12, "reject")])
def test_first_tokens_may_differ_on_a_few_prompts_more_than_the_servers_own(lost: int, found: str) -> None:
    assert verdicts(answers(), of_some(lost, other_tokens))["agreement"] == found


def test_as_much_as_the_old_replica_differs_from_itself_is_nobodys_fault() -> None:
    one, other = answers().rounds[0], of_some(4, other_tokens).rounds[0]
    unstable = Answers(prompts=digest(), rounds=(one, other))
    assert verdicts(unstable, of_some(8, other_tokens))["agreement"] == "promote"
    assert verdicts(answers(), of_some(8, other_tokens))["agreement"] == "reject"
    assert verdicts(answers(), of_some(12, other_tokens))["agreement"] == "reject"


@pytest.mark.parametrize(("lost", "found"), [(1, "promote"), (2, "reject"), (24, "reject")])
def test_wrong_sums_reject(lost: int, found: str) -> None:
    wrong = of_some(lost, lambda answer: answer.model_copy(update={"text": " 1" + answer.text.strip()}), SUMS)
    assert verdicts(answers(), wrong)["arithmetic"] == found


@pytest.mark.parametrize(
    "answer",
    [
        Answer(error="HTTP 500"),
        Answer(text="", tokens=()),
        Answer(text=" \n", tokens=(7,)),
        Answer(text=" the the the the the the the", tokens=(5,) * 40),
        Answer(text=" a b a b", tokens=(9, 1, 2) * 12),
        Answer(text="\N{REPLACEMENT CHARACTER}x" * 10, tokens=tuple(range(20))),
        Answer(text="so so so so so so so so"),
    ],
)
def test_answers_that_nobody_can_use_are_not_sound(answer: Answer) -> None:
    found = verdicts(answers(), of_some(10, lambda _: answer))
    assert found["soundness"] == "reject"


@pytest.mark.parametrize("text", [" 612", "612\n731 - 98 = 633", " 612.", "  612 and"])
def test_a_result_is_read_from_the_first_number(text: str) -> None:
    prompt = SUMS[0]
    right = answers(lambda one, answer: answer.model_copy(update={"text": text}) if one == prompt else answer)
    (line,) = [one for one in reasons(answers(), right, Limits()) if one.id == "arithmetic"]
    assert line.found.startswith("24 of 24")


def test_a_character_that_was_cut_is_no_garbage() -> None:
    cut = answers(lambda _, answer: answer.model_copy(update={"text": answer.text + "\N{REPLACEMENT CHARACTER}"}))
    assert verdicts(answers(), cut)["soundness"] == "promote"


def test_servers_that_tell_no_tokens_are_compared_by_words() -> None:
    silent = answers(lambda _, answer: answer.model_copy(update={"tokens": ()}))
    assert set(verdicts(silent, silent).values()) == {"promote"}
    other = answers(lambda prompt, _: Answer(text=good(prompt).text.replace(" ", " x")))
    assert verdicts(silent, other)["agreement"] == "reject"


def test_without_answers_nothing_is_decided() -> None:
    assert verdicts(None, answers()) == {"answers": "undecided"}
    others = answers().model_copy(update={"prompts": "0" * 64})
    assert verdicts(others, others) == {"answers": "undecided"}


@pytest.mark.parametrize(
    ("old", "undecided"),
    [
        (answers(lambda *_: Answer(error="HTTP 404")), {"answers", "agreement", "arithmetic", "soundness"}),
        (Answers(prompts=digest(), rounds=({}, {})), {"answers", "agreement", "arithmetic", "soundness"}),
        (of_some(6, lambda _: Answer(error="HTTP 404")), {"answers", "agreement", "arithmetic", "soundness"}),
        (of_some(6, lambda answer: answer.model_copy(update={"text": ""})), {"soundness"}),
        (Answers(prompts=digest(), rounds=(answers().rounds[0], of_some(6, other_tokens).rounds[0])), {"agreement"}),
    ],
)
def test_an_old_replica_that_hardly_answers_is_no_yardstick(old: Answers, undecided: set[str]) -> None:
    found = verdicts(old, old)
    assert {id_ for id_, verdict in found.items() if verdict == "undecided"} == undecided
    assert "reject" not in found.values()


def test_nothing_is_measured_beside_an_old_replica_that_does_not_answer() -> None:
    require_answers(of_some(4, lambda _: Answer(error="HTTP 401")))
    with pytest.raises(BenchmarkError, match=r"48 of 48 .*HTTP 401"):
        require_answers(answers(lambda *_: Answer(error="HTTP 401")))


def test_what_a_model_invents_after_a_sum_is_not_compared() -> None:
    def invents(prompt: Prompt, answer: Answer) -> Answer:
        if prompt.result is None:
            return answer
        return Answer(text=f" {prompt.result}\n3 + {prompt.result} = 9", tokens=(prompt.result, 1, 3))

    assert set(verdicts(answers(), answers(invents)).values()) == {"promote"}


def test_what_failed_once_may_be_asked_again() -> None:
    silent = of_some(4, lambda _: Answer(error="HTTP 503"), SUMS)
    assert {id_: verdicts(answers(), silent)[id_] for id_ in ("arithmetic", "soundness")} == {
        "arithmetic": "undecided",
        "soundness": "undecided",
    }


def test_the_words_of_another_model_are_a_note() -> None:
    found = {one.id: one.verdict for one in reasons(answers(), of_some(20, other_tokens), Limits(), other_model=True)}
    assert found == {"agreement": "note", "arithmetic": "promote", "soundness": "promote"}
