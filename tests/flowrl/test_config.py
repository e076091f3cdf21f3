"""Configuration: round trips, refusals in one line, and nothing else ever."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowrl import registry
from flowrl.config import (
    ALGORITHMS,
    LEARNERS,
    ConfigError,
    ParallelConfig,
    PpoConfig,
    ReplayConfig,
    RunConfig,
    error_line,
    from_toml,
    load_toml,
    parse,
    to_toml,
)
from flowrl.config.kinds import Choice, File, Pairs, Real, Switch, Whole
from flowrl.config.options import options_of, sections_of

PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1)
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
SCALARS = st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False) | PLAIN
VALUES = SCALARS | st.lists(SCALARS, max_size=3)


def refused(call, *arguments):
    """Return the message of the ConfigError that a call must raise."""
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    line = error_line("flowrl.train", caught.value)
    assert "\n" not in line
    assert line.startswith("flowrl.train: error: ")
    return line.removeprefix("flowrl.train: error: ")


def values_of(option):
    """Return a strategy of what an option accepts."""
    match option:
        case Whole():
            return st.integers(option.low, option.high)
        case Real():
            bounds = {"exclude_min": option.above, "exclude_max": option.below}
            return st.floats(option.low, option.high, allow_infinity=False, **bounds)
        case Choice():
            return st.sampled_from(option.choices)
        case Switch():
            return st.booleans()
        case Pairs():
            return st.dictionaries(WORDS, VALUES, max_size=3)
        case File():
            return st.none() | PLAIN.filter(lambda text: text.strip(".") != "").map(Path)
    return PLAIN


@st.composite
def configs(draw, cls=RunConfig):
    """Draw a configuration whose every field was drawn by its own rule."""
    arguments = {item.name: draw(values_of(option)) for item, option in options_of(cls)}
    for item, section in sections_of(cls):
        arguments[item.name] = draw(configs(section))
    if cls is PpoConfig:
        arguments["n_transitions_per_update"] = 10**9
    if cls is ReplayConfig:
        arguments |= {"capacity": 10**9, "fanout": draw(st.sampled_from([2, 8, 64]))}
        is_file = arguments["storage"] == "file"
        arguments["file"] = Path("rows") if is_file else None
    if cls is ParallelConfig and arguments["setting"] == "joined":
        arguments["iteration"] = "strict"
    if cls is RunConfig:
        arguments["n_envs"] = draw(st.integers(1, 1000))
        arguments["placement"] = draw(st.sampled_from(["auto", "cpu", "learner=gpu0"]))
        if arguments["algo"] == "ppo":
            arguments |= {"parallel": ParallelConfig(), "placement": "cpu"}
    return cls(**arguments)


@settings(max_examples=300)
@given(configs())
def test_toml_round_trip_is_exact(config):
    again = from_toml(to_toml(config))
    assert again == config
    assert to_toml(again) == to_toml(config)


def test_the_registry_and_the_configuration_know_the_same_names():
    assert tuple(registry.ALGORITHMS) == ALGORITHMS
    assert tuple(registry.LEARNERS) == LEARNERS


def test_defaults_need_no_argument():
    config = parse([])
    assert config == RunConfig()
    assert config.output == Path("out/ppo_Shkadov-v0_seed0.h5")
    assert (config.algo, config.bootstrap, config.n_transitions) == ("ppo", "pt", 200_000)


def test_the_command_line_comes_before_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('n_envs = 4\nseed = 7\n[env_args]\nn_jets = 5\npreset = "beacon"\n'
                    "[ppo]\nclip = 0.1\nnormalise_advantages = false\n")  # fmt: skip
    words = (
        "--n-envs=3 --ppo.normalise-advantages --env-args n_jets=1 extra=yes --env-args tags=[1,2]"
    )
    config = parse(["--config", str(file), *words.split()])
    assert (config.n_envs, config.seed, config.ppo.clip) == (3, 7, 0.1)
    assert config.ppo.normalise_advantages
    assert config.env_args == {"n_jets": 1, "preset": "beacon", "extra": "yes", "tags": [1, 2]}


def test_of_several_files_the_last_counts(tmp_path):
    for seed in (1, 2):
        (tmp_path / f"{seed}.toml").write_text(f"seed = {seed}\n[env_args]\nfrom_{seed} = true\n")
    names = [str(tmp_path / f"{seed}.toml") for seed in (1, 2)]
    config = parse(["--config", names[0], f"--config={names[1]}"])
    assert (config.seed, config.env_args) == (2, {"from_2": True})


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5.0", 5.0), ("true", True), ("beacon", "beacon"), ('"5"', "5"), ("[1, 2]", [1, 2]),
     ("", ""), ("a=b", "a=b"), ("1979-05-27", "1979-05-27"), ("nan", "nan"), ("inf", math.inf),
     ("1e3", 1000.0), ("1\nother = 2", None)],
)  # fmt: skip
def test_values_of_environment_arguments(text, value):
    if value is None:
        refused(parse, ["--env-args", f"key={text}"])
        return
    assert parse(["--env-args", f"key={text}"]).env_args == {"key": value}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--n-env 3", ["--n-env is not an option", "did you mean --n-envs?"]),
        ("--gamma 0.9", ["--gamma", "did you mean --ppo.gamma?"]),
        ("--ppo.gama 0.9", ["did you mean --ppo.gamma?"]),
        ("--sac.gamma 0.9", ["did you mean --off-policy.gamma?"]),
        ("--n-envs 0", ["--n-envs", "1 to 1e6", "got 0", "the default is 8"]),
        ("--n-envs -3", ["--n-envs", "got -3"]),
        ("--n-envs 1.5", ["--n-envs", "whole number", "got '1.5'"]),
        ("--n-envs", ["--n-envs"]),
        ("--n-envs 3 4", ["'4'", "--help"]),
        ("--n-transitions 1e5", ["--n-transitions", "whole number"]),
        ("--seed -1", ["--seed", "0 to"]),
        ("--ppo.clip nan", ["--ppo.clip", "above 0", "got nan", "0.2"]),
        ("--ppo.clip inf", ["--ppo.clip"]),
        ("--ppo.clip 0", ["--ppo.clip", "got 0.0"]),
        ("--ppo.gamma 1.01", ["--ppo.gamma", "0 to 1"]),
        ("--ppo.actor-learning-rate 0", ["--ppo.actor-learning-rate", "above 0"]),
        ("--algo poo", ["--algo", "did you mean ppo?"]),
        ("--bootstrap regula", ["--bootstrap", "did you mean regular?"]),
        ("--env-args n_jets", ["--env-args", "KEY=VALUE"]),
        ("--env-args 1a=3", ["--env-args", "Python name"]),
        ("--env-args a=[1", ["--env-args", "TOML"]),
        ("--ppo.n-transitions-per-update 10 --ppo.n-minibatches 20", ["--ppo.n-minibatches", "10"]),
        ("--ppo.n-transitions-per-update 10 --n-envs 20", ["--n-envs", "10", "got 20"]),
        ("--config nowhere.toml", ["--config", "nowhere.toml", "No such file"]),
        ("--config", ["--config"]),
        ("--tyro-print-completion nosuchshell", ["bash"]),
        ("-x", ["-x is not an option"]),
    ],
)
def test_command_lines_are_refused_in_one_line(arguments, parts):
    message = refused(parse, arguments.split(" "))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("n_env = 3", ["'n_env' is not a setting", "did you mean n_envs?"]),
        ("gamma = 0.9", ["did you mean ppo.gamma?"]),
        ("[ppo]\nclipp = 0.1", ["'ppo.clipp'", "did you mean ppo.clip?"]),
        ("[ppo]\nclip = true", ["--ppo.clip", "got True"]),
        ("[ppo]\nclip = '0.1'", ["--ppo.clip", "got '0.1'"]),
        ("n_envs = 2.0", ["--n-envs", "whole number", "got 2.0"]),
        ("n_envs = false", ["--n-envs", "got False"]),
        ("overwrite = 1", ["--overwrite", "true or false"]),
        ("ppo = 3", ["ppo must be a table", "[ppo]"]),
        ("env_args = 3", ["env_args must be a table"]),
        ("[env_args]\nx = nan", ["--env-args"]),
        ("[env_args]\nx = 1979-05-27", ["--env-args"]),
        ("out = ''", ["--out", "path"]),
        ("seed = 99999999999999999999999", ["--seed"]),
        ("a = ", ["not valid TOML"]),
        ("n_envs = 1\nn_envs = 2", ["not valid TOML"]),
    ],
)
def test_files_are_refused_in_one_line(tmp_path, text, parts):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    message = refused(load_toml, file)
    for part in [str(file), *parts]:
        assert part in message


def test_files_that_are_no_text_are_refused(tmp_path):
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refused(load_toml, file)
    file.write_bytes(b"#" * 1_000_001)
    assert "larger than" in refused(load_toml, file)
    assert "readable" in refused(load_toml, tmp_path)


@pytest.mark.parametrize("value", ["8", 8.0, True, None, math.nan, 10**400, [8], object()])
def test_wrong_types_from_python_are_refused(value):
    assert "--n-envs must be a whole number" in refused(lambda: RunConfig(n_envs=value))


def test_sections_must_be_sections():
    assert "PpoConfig" in refused(lambda: RunConfig(ppo={"clip": 0.1}))


def test_configurations_are_frozen_and_keep_their_own_pairs():
    pairs = {"n_jets": 5}
    config = RunConfig(env_args=pairs)
    pairs["n_jets"] = 6
    assert config.env_args == {"n_jets": 5}
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3


KNOWN = ["--n-envs", "--ppo.clip", "--seed", "--env-args", "--out", "--overwrite", "--config",
         "--", "-", "--ppo", "--ppo.no-normalise-advantages", "nan", "1e999", "-1", "=", "a=1", "4",
         "\0", ""]  # fmt: skip
JUNK = st.text(max_size=8) | st.sampled_from(KNOWN)


def accepted_or_refused(call, *arguments):
    """Return what a call returns, or None where it refuses in one line."""
    try:
        return call(*arguments)
    except ConfigError as caught:
        line = error_line("flowrl.train", caught)
    assert line.isprintable()
    return None


@settings(max_examples=100)
@given(st.lists(JUNK, max_size=5))
def test_any_command_line_is_accepted_or_refused_in_one_line(words):
    words = [word for word in words if word not in ("-h", "--help")]
    config = accepted_or_refused(parse, words)
    assert config is None or from_toml(to_toml(config)) == config


@settings(max_examples=500)
@given(st.data())
def test_any_mutated_file_is_accepted_or_refused_in_one_line(data):
    text = to_toml(RunConfig(env_args={"n_jets": 5, "preset": "beacon"}))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 5))
        text = text[:place] + data.draw(st.text(max_size=4)) + text[place + length :]
    config = accepted_or_refused(from_toml, text)
    assert config is None or from_toml(to_toml(config)) == config


def test_help_shows_groups_ranges_and_defaults(capsys):
    with pytest.raises(SystemExit) as stop:
        parse(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for part in ("ppo options", "--ppo.clip", "above 0 and at most 1", "default: 0.2", "[s]"):
        assert part in text
    for item, option in options_of(RunConfig):
        assert f"--{item.name.replace('_', '-')}" in text
        assert option.doc


def test_tyro_is_loaded_only_to_parse():
    code = "import sys, flowrl.config as c; c.RunConfig(); sys.exit('tyro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_command_ends_with_two_and_one_line():
    command = [sys.executable, "-m", "flowrl.train", "--n-env", "3"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert (
        process.stderr == "flowrl.train: error: --n-env is not an option; did you mean --n-envs?\n"
    )
    assert process.stdout == ""
