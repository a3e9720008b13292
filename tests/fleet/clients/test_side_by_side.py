"""Work on many things at once, and the ways out of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fleet.clients.side_by_side import side_by_side
from tests.fleet.clients.fake_google import TOKEN, FakeGoogle
from tests.support.simulators.local_server import Answer, Request

ROOT = Path(__file__).parents[3]


def test_results_come_in_the_order_of_the_items_and_no_more_are_at_work_than_allowed() -> None:
    at_work: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> int:
        with lock:
            at_work.append(number)
            most.append(len(at_work))
        time.sleep(0.005 * (5 - number % 5))
        with lock:
            at_work.remove(number)
        return number * number

    assert side_by_side(work, range(20), 4) == [number * number for number in range(20)]
    assert 1 < max(most) <= 4
    assert side_by_side(work, (), 4) == []


def test_results_are_told_in_the_callers_thread_and_none_after_an_error() -> None:
    told: list[tuple[int, int]] = []
    over = threading.Event()

    def work(number: int) -> int:
        if number == 2:
            raise KeyError(number)
        if number == 1:
            over.wait(60)
        return number

    with pytest.raises(KeyError):
        side_by_side(work, range(3), 3, lambda number: told.append((number, threading.get_ident())))
    before = list(told)
    over.set()
    time.sleep(0.1)
    assert told == before
    assert set(told) <= {(0, threading.get_ident())}


def test_what_one_raises_is_raised_and_the_others_are_not_waited_for() -> None:
    begun: list[int] = []
    at_work, over = threading.Event(), threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            at_work.wait(60)
            raise KeyError(number)
        at_work.set()
        over.wait(60)

    began = time.monotonic()
    with pytest.raises(KeyError):
        side_by_side(work, range(10), 2)
    assert time.monotonic() - began < 50
    over.set()
    assert sorted(begun) == [0, 1]


def test_ctrl_c_while_a_bucket_is_silent_ends_the_program_at_once(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fleet.clients.google_api import UserCredentials\n"
        "from fleet.clients.storage import Bucket\n"
        "bucket = Bucket('results', UserCredentials(), url=sys.argv[1])\n"
        "def say(done, of): print('begun', flush=True)\n"
        "bucket.mirror('runs/a/', Path(sys.argv[2]), progress=say)\n"
    )
    asked, over = threading.Event(), threading.Event()

    class Silent(FakeGoogle):
        def content(self, name: str, request: Request) -> Answer:
            asked.set()
            over.wait(120)
            return super().content(name, request)

    with Silent() as google:
        google.put("runs/a/x", b"12345")
        process = subprocess.Popen(
            [sys.executable, "-c", script, google.url, str(tmp_path / "out")],
            cwd=ROOT,
            env={**os.environ, "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            try:
                _, said = process.communicate(timeout=30)
            finally:
                process.kill()
                over.set()
    assert said.rstrip().endswith("KeyboardInterrupt")
