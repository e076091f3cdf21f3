"""Figures: drawn from real files, grouped rightly, refused in one line."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from flowrl import plot
from flowrl.config import ConfigError, NetworkConfig, ProgressConfig
from flowrl.curves import AXES, _baselines, draw_curves, group_runs
from flowrl.results import ResultError, Run
from tests.flowrl.recording import config, create, make_run
from tests.launch import module

EVALUATION = {"trained": np.array([-0.2, -0.3]), "uncontrolled": np.array([-1.4, -1.2])}


def runs(folder, *settings, scores=(-3.0, -1.0, -0.5)):
    """Write runs of these settings; later ones score a little more."""
    paths = [
        make_run(folder / f"{i}.h5", np.array(scores) + 0.1 * i, setting, EVALUATION)
        for i, setting in enumerate(settings)
    ]
    return [Run.open(path) for path in paths]


def test_runs_that_differ_in_their_seed_only_are_one_line(tmp_path):
    display = dataclasses.replace(config(seed=2), progress=ProgressConfig("none"))
    groups = group_runs(runs(tmp_path, config(seed=0), config(bootstrap="eoe"), config(seed=1),
                             display))  # fmt: skip
    assert [len(group.runs) for group in groups] == [3, 1]
    assert [group.label for group in groups] == ["bootstrap=pt", "bootstrap=eoe"]
    assert [group.band for group in groups] == ["3 runs", "the latest episodes"]


def test_lines_are_named_by_what_differs(tmp_path):
    settings = [
        config(),
        config(env_args={"n_jets": 5}),
        config(env_args={"n_jets": 5}, network=NetworkConfig(actor_width=32)),
    ]
    groups = group_runs(runs(tmp_path, *settings))
    assert [group.label for group in groups] == [
        "n_jets=-, actor_width=64", "n_jets=5, actor_width=64", "n_jets=5, actor_width=32"
    ]  # fmt: skip
    assert group_runs(groups[0].runs)[0].label == "ppo, Shkadov-v0"
    assert group_runs(groups[0].runs, ["mine"])[0].label == "mine"
    with pytest.raises(ConfigError, match="once for each of the 1 lines, got 2"):
        group_runs(groups[0].runs, ["mine", "yours"])


def test_mean_and_band_are_those_of_the_runs(tmp_path):
    (group,) = group_runs(runs(tmp_path, config(seed=0), config(seed=1), config(seed=2)))
    x, mean, spread = group.curve("transitions")
    assert (x[0], x[-1]) == (100.0, 300.0)
    assert mean[[0, -1]] == pytest.approx([-2.9, -0.4])
    assert spread == pytest.approx(np.full(len(x), np.std([0.0, 0.1, 0.2])))
    time, _, _ = group.curve("time")
    assert (time[0], time[-1]) == pytest.approx((0.5, 1.5))
    assert group.held_out("uncontrolled") == pytest.approx(-1.3)
    assert group.held_out("random") is None


def test_one_run_shows_the_spread_of_its_episodes_from_the_first_score_on(tmp_path):
    (run,) = runs(tmp_path, config(), scores=(np.nan, -1.0, -0.5))
    x, mean, spread = group_runs([run])[0].curve("transitions")
    assert x.tolist() == [200.0, 300.0]
    assert mean.tolist() == [-1.0, -0.5]
    assert spread.tolist() == [0.1, 0.1]


def test_runs_that_cannot_be_drawn_are_refused(tmp_path):
    create(tmp_path / "empty.h5").finish("failed")
    for scores in ((np.nan, np.nan), (-1.0, np.nan)):
        make_run(tmp_path / f"{scores[0]}.h5", scores)
    make_run(tmp_path / "late.h5", (np.nan, -1.0), config(seed=1))
    opened = {name: Run.open(tmp_path / f"{name}.h5") for name in ("empty", "nan", "-1.0", "late")}
    for name in ("empty", "nan"):
        with pytest.raises(ResultError, match="no episode has ended"):
            group_runs([opened[name]])[0].curve("time")
    with pytest.raises(ResultError, match="do not overlap"):
        group_runs([opened["-1.0"], opened["late"]])[0].curve("time")


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figures_are_written(tmp_path, suffix):
    groups = group_runs(runs(tmp_path, config(), config(bootstrap="eoe"), config(seed=1)))
    figure = tmp_path / f"curves{suffix}"
    draw_curves(groups, AXES, figure)
    content = figure.read_bytes()
    assert content.startswith({".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[suffix])
    if suffix == ".png":
        with Image.open(figure) as image:
            assert image.size == (1440, 620)
            assert image.info["dpi"] == pytest.approx((200, 200), rel=0.01)
            # Both lines, their bands and the dashes: not a blank sheet.
            assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 100
    if suffix == ".svg":
        for part in (b"transitions", b"wall time [s]", b"bootstrap=eoe", b"no control"):
            assert part in content


def test_more_lines_than_colours_still_differ(tmp_path):
    settings = [config(network=NetworkConfig(actor_width=width)) for width in range(1, 10)]
    draw_curves(group_runs(runs(tmp_path, *settings)), ("time",), tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000


def test_the_command_draws_into_a_new_folder(tmp_path):
    paths = [str(run.path) for run in runs(tmp_path, config(), config(seed=1))]
    figure = tmp_path / "new" / "x.png"
    arguments = ["curves", *paths, "-o", str(figure), "--x", "transitions", "--label", "two seeds"]
    assert plot.command(arguments) == 0
    with Image.open(figure) as image:
        assert image.size == (920, 620)


def test_groups_that_share_a_baseline_draw_it_once_in_grey(tmp_path):
    cases = {-1.3: config(), -2.0: config(bootstrap="eoe"), -1.31: config(n_envs=4)}
    paths = [
        make_run(tmp_path / f"{level}.h5", [-1.0], setting, {"uncontrolled": np.array([level])})
        for level, setting in cases.items()
    ]
    groups = group_runs([Run.open(path) for path in paths])
    (shared, grey), (own, colour) = _baselines(groups)
    assert (shared, own) == pytest.approx((-1.305, -2.0))
    assert grey == "#555555" != colour


def test_scores_below_the_lowest_to_show_are_cut_off(tmp_path):
    path = str(runs(tmp_path, config(), scores=(-300.0, -1.0, -0.5))[0].path)
    drawn = []
    for lowest in ("-400", "-4", "-5"):
        figure = tmp_path / f"{lowest}.svg"
        assert plot.command(["curves", path, "-o", str(figure), "--lowest", lowest]) == 0
        drawn.append(figure.read_text())
    assert ["\N{MINUS SIGN}300" in text for text in drawn] == [True, False, False]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("", "one of curves, film, devices, got nothing"),
        ("curvs a.h5", "did you mean curves?"),
        ("curves", "runs must be the path of one file or more, got nothing"),
        ("curves a.h5", "--out must be"),
        ("curves a.h5 -o x.jpg", ".png, .pdf, .svg"),
        ("curves nowhere.h5 -o x.png", "no such file"),
        ("curves {run} -o {run}/x.png", "cannot be written"),
        ("curves {run} -o x.png --x tim", "did you mean time?"),
        ("curves {run} -o x.png --label a b", "1 lines, got 2"),
        ("curves {run} -o x.png --titel a", "--titel is not an option"),
        ("film nowhere.h5 -o x.png", "no such file"),
        ("film {run} -o x.bmp", ".png, .pdf, .svg, .gif, .mp4"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, arguments, part):
    run = make_run(tmp_path / "run.h5", [-1.0, -0.5])
    with pytest.raises(ConfigError) as caught:
        plot.command(arguments.format(run=run).split())
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_ends_with_two_and_one_line(tmp_path):
    done = module("flowrl.plot", "curves", str(tmp_path / "none.h5"), "-o", "x.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"flowrl.plot: error: {tmp_path / 'none.h5'}: no such file\n"


def test_help(capsys):
    assert plot.command(["--help"]) == 0
    assert "film RUN.h5" in capsys.readouterr().out
    for figure in plot.FIGURES:
        with pytest.raises(SystemExit) as stop:
            plot.command([figure, "--help"])
        assert stop.value.code == 0
        assert "-o FILE.png" in capsys.readouterr().out


def film_run(path):
    """Train the quickest run whose film can be drawn, a tenth of an episode long."""
    arguments = ("--n-transitions", "320", "--env-args", "episode_time=2", "--out", str(path),
                 "--progress.display", "none", "--evaluation.no-at-end")  # fmt: skip
    done = module("flowrl.train", *arguments)
    assert done.returncode == 0, done.stderr
    return path


def test_the_film_of_a_trained_run_is_drawn_and_animated(tmp_path):
    path = film_run(tmp_path / "run.h5")
    figure, animation = tmp_path / "film.png", tmp_path / "film.gif"
    done = module("flowrl.plot", "film", str(path), "-o", str(figure))
    assert (done.returncode, done.stderr) == (0, "")
    with Image.open(figure) as image:
        assert min(image.size) > 200
    assert plot.command(["film", str(path), "-o", str(animation)]) == 0
    with Image.open(animation) as image:
        assert image.n_frames == 41
    # Without ffmpeg: one line that names the way out.
    done = module("flowrl.plot", "film", str(path), "-o", str(tmp_path / "x.mp4"), PATH="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flowrl.plot: error: --out: path must end in .gif")
    assert done.stderr.count("\n") == 1
    assert plot.command(["film", str(path), "-o", str(tmp_path / "x.pdf")]) == 0
    with pytest.raises(ConfigError, match=r"^--out .*y\.gif: cannot be written"):
        plot.command(["film", str(path), "-o", str(path / "y.gif")])


def test_an_environment_that_cannot_be_drawn_says_so(tmp_path):
    path = make_run(tmp_path / "run.h5", [-1.0], config(env="Pendulum-v1"))
    done = module("flowrl.plot", "film", str(path), "-o", str(tmp_path / "x.png"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Pendulum-v1 cannot be drawn" in done.stderr
