"""What the terminal shows: one interface, three displays."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from flowrl import progress
from flowrl.config import ProgressConfig
from flowrl.progress import NoProgress, PlainProgress, RichProgress, make_progress

RETURNS = {"trained": np.array([-0.2, -0.3]), "uncontrolled": np.array([-1.4, -1.2])}


def record(transitions, score=-0.5):
    return {"transitions": transitions, "score_mean": score, "n_episodes": 8,
            "approximate_kl": 0.01, "clip_fraction": 0.125, "entropy": 1.5, "blow_ups": 2,
            "collect": 0.1, "reduce": 0.01, "learn": 0.25}  # fmt: skip


@pytest.mark.parametrize(
    ("display", "is_terminal", "kind"),
    [
        ("auto", True, RichProgress),
        ("auto", False, PlainProgress),
        ("rich", False, RichProgress),
        ("plain", True, PlainProgress),
        ("none", True, NoProgress),
    ],
)
def test_the_display_fits_the_terminal(monkeypatch, display, is_terminal, kind):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    assert type(make_progress(ProgressConfig(display), 100)) is kind


def test_the_pace_of_a_resumed_run_counts_from_there(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with make_progress(ProgressConfig("plain"), 600, n_before=400) as display:
        now = 4.0
        display.update(record(500))
    assert "transitions/s=25 " in capsys.readouterr().out


def test_plain_lines_come_now_and_then_and_at_the_end(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with PlainProgress(600, interval=5.0) as display:
        for update in range(1, 7):
            now = 2.0 * update
            display.update(record(100 * update))
        display.show_evaluation(RETURNS, 0.8)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "transitions=100/600", "transitions=400/600", "transitions=600/600", "held-out:"
    ]  # fmt: skip
    for part in ("score=-0.5", "KL=1.00e-02", "clip_fraction=0.125", "entropy=1.500",
                 "blow-ups=2", "transitions/s=50", "collect=0.100s", "reduce=0.010s",
                 "learn=0.250s"):  # fmt: skip
        assert part in lines[1], part
    assert "trained=-0.25" in lines[3]
    assert "gain=80.0%" in lines[3]
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(("score", "shown"), [(-0.5, " -0.5 "), (float("nan"), " - ")])
def test_the_live_table_shows_everything(score, shown):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200)
    with RichProgress(200, console) as display:
        display.update(record(100, score))
        display.update(record(200, score))
        display.show_evaluation(RETURNS, 0.8)
    text = screen.getvalue()
    for part in ("transitions", "200/200", "100%", "score", shown, "KL [nat]", "1.00e-02",
                 "clip fraction", "0.125", "entropy", "blow-ups", "transitions/s", "collect [s]",
                 "reduce [s]", "learn [s]", "0.250", "Held-out scores", "80.0%"):  # fmt: skip
        assert part in text, part
    assert "nan" not in text


def test_nothing_is_nothing(capsys):
    with NoProgress() as display:
        display.update(record(100))
        display.show_evaluation(RETURNS, 0.8)
    assert capsys.readouterr() == ("", "")


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("display", ["plain", "rich"])
@pytest.mark.parametrize("make", [closed_pipe, lambda: os.open("/dev/full", os.O_WRONLY)])
def test_a_screen_that_takes_nothing_does_not_end_the_run(display, make):
    code = (
        "import sys; from flowrl.config import ProgressConfig\n"
        "from flowrl.progress import make_progress; import tests.flowrl.test_progress as t\n"
        "with make_progress(ProgressConfig(sys.argv[1], interval=0.0), 100) as display:\n"
        "    for i in range(3): display.update(t.record(50 * i))\n"
        "display.show_evaluation(t.RETURNS, 0.8)\n"
        "sys.stderr.write('at the end')"
    )
    command = [sys.executable, "-c", code, display]
    screen = make()
    try:
        process = subprocess.run(
            command, stdout=screen, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(screen)
    assert (process.returncode, process.stderr) == (0, "at the end")
