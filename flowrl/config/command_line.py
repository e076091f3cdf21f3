"""Read command lines with tyro, and turn whatever is wrong into one line.

tyro splits the words and writes the help. Every option reaches it as text, through a dataclass
made to mirror ours, so that values are converted and refused by the same code as in TOML files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from flowrl.config.kinds import File, Files, Option, Pairs, Switch, Words, parse_pair
from flowrl.config.names import ConfigError, shown, suggestion
from flowrl.config.options import default_of, options_of, sections_of, shown_name
from flowrl.config.run import RunConfig
from flowrl.config.toml import from_mapping, load_toml, to_mapping

OptionsT = TypeVar("OptionsT")

_UNSET = "\0unset"  # no word of a command line holds a NUL
_CONFIG = "config"
_SHELLS = ("bash", "zsh", "tcsh", "fish")


def parse(argv: Sequence[str], prog: str = "flowrl.train") -> RunConfig:
    """Return the configuration of a command line, on top of the file that `--config` names."""
    path = _config_file(argv)
    base = RunConfig() if path is None else load_toml(path)
    return parse_options(RunConfig, argv, prog, base=base, config_option=True)


def parse_options(
    cls: type[OptionsT],
    argv: Sequence[str],
    prog: str,
    base: OptionsT | None = None,
    config_option: bool = False,
) -> OptionsT:
    """Return the dataclass of options that a command line asks for; raise ConfigError."""
    parsed, unknown = _tokenise(_mirror(cls, base, config_option), argv, prog)
    if unknown:
        # A word after an unknown option is most likely its value: name the option.
        word = next((word for word in unknown if word.startswith("-")), unknown[0])
        raise ConfigError(_unknown(word, cls, config_option))
    values = {} if base is None else to_mapping(base)
    _overlay(values, parsed, cls)
    return from_mapping(cls, values)


def run_command(command: Callable[[Sequence[str]], int], prog: str) -> int:
    """Run a command line and return its exit code: 2 with one line where the input is wrong."""
    try:
        return command(sys.argv[1:])
    except ConfigError as error:
        sys.stderr.write(f"{error_line(prog, error)}\n")
        return 2
    except BrokenPipeError:  # The reader of our output, `head` say, has seen enough.
        sys.stderr.close()
        return 0


def error_line(prog: str, error: BaseException) -> str:
    """Return an error as the one line that a user gets to see."""
    return f"{prog}: error: {' '.join(str(error).split())}"


def _config_file(argv: Sequence[str]) -> Path | None:
    """Return the file named by the last --config: its values become the defaults."""
    path = given_value(argv, _CONFIG)
    if path is not None and (not path or "\0" in path):
        raise ConfigError(f"--config must be the path of a TOML file, got {shown(path)}")
    return None if path is None else Path(path)


def given_value(argv: Sequence[str], name: str) -> str | None:
    """Return the word that a command line gives last for an option, None where it does not."""
    value = None
    option = shown_name("", name)
    for word, following in zip_longest(argv, argv[1:]):
        if word == "--":
            break
        # An underscore is as good as a hyphen to tyro.
        given, equals, inline = word.partition("=")
        if given.replace("_", "-") != option:
            continue
        if equals:
            value = inline
        elif following is not None and not following.startswith("-"):
            value = following
    return value


def _mirror(cls: type[Any], base: Any, config_option: bool = False) -> type[Any]:
    """Return a dataclass in which every option of `cls` is a text that tyro fills in."""
    import tyro

    fields: list[Any] = []
    for item, option in options_of(cls):
        default = default_of(item) if base is None else getattr(base, item.name)
        fields.append((item.name, *_mirrored(option, default)))
    if config_option:
        argument = tyro.conf.arg(
            help="TOML file with other defaults, the last one given; the command line comes first",
            metavar="FILE.toml",
            help_behavior_hint="",
        )
        fields.insert(0, (_CONFIG, Annotated[str, argument], _UNSET))
    for item, section in sections_of(cls):
        inner = _mirror(section, None if base is None else getattr(base, item.name))
        fields.append((item.name, inner, dataclasses.field(default_factory=inner)))
    mirror = dataclasses.make_dataclass(cls.__name__, fields)
    mirror.__doc__ = cls.__doc__
    return mirror


def _mirrored(option: Option, default: object) -> tuple[Any, Any]:
    """Return the type and default under which tyro sees one option."""
    import tyro

    kind: Any = str
    value: Any = _UNSET
    marks: list[Any] = []
    if isinstance(option, Switch):
        kind, value = bool, default
    elif isinstance(option, Files):
        kind, value = tuple[str, ...], ()
    elif isinstance(option, (Pairs, Words)):
        kind, value = tuple[tuple[str, ...], ...], ()
        marks.append(tyro.conf.UseAppendAction)
    if option.positional:
        marks.append(tyro.conf.Positional)
    metavar = None if isinstance(option, Switch) else option.metavar
    argument = tyro.conf.arg(
        help=option.doc,
        metavar=metavar,
        help_behavior_hint=_hint(option, default),
        aliases=list(option.aliases) or None,
    )
    return Annotated[(kind, argument, *marks)], value


def _hint(option: Option, default: object) -> str:
    """Return what the help says behind the description: range and default."""
    parts = [option.range_help] if option.range_help else []
    if isinstance(option, Pairs) and default:
        parts.append("default: " + " ".join(f"{k}={v}" for k, v in cast(Any, default).items()))
    elif default is not None and not isinstance(option, (Pairs, Files, Words)):
        parts.append(f"default: {option.shown(default)}")
    elif isinstance(option, File) and not option.optional:
        parts.append("required")
    return f"({'; '.join(parts)})" if parts else ""


def _tokenise(mirror: type[Any], argv: Sequence[str], prog: str) -> tuple[Any, list[str]]:
    """Return the mirror filled by tyro and the words it did not understand."""
    import tyro

    if argv and argv[0].startswith("--tyro-") and (len(argv) < 2 or argv[1] not in _SHELLS):
        raise ConfigError(f"{shown(argv[0])} must be followed by one of {', '.join(_SHELLS)}")
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(mirror, prog=prog, args=list(argv), return_unknown_args=True)
    except SystemExit as stop:
        if not stop.code:  # --help has been printed
            raise
        raise ConfigError(_first_sentence(errors.getvalue())) from None


def _first_sentence(box: str) -> str:
    """Return the message inside tyro's framed error."""
    lines: list[str] = []
    for line in box.splitlines()[1:]:
        content = line.strip("│╭╮╰╯ ")
        if not content or set(content) <= {"─"}:
            break
        lines.append(content)
    message = " ".join(lines).replace("for argument '", "for '").replace(" Expected 1 values.", "")
    return message or "the command line was not understood; try --help"


def _unknown(word: str, cls: type[Any], config_option: bool) -> str:
    if not word.startswith("-"):
        return f"{shown(word)} is not expected here; every option starts with --, see --help"
    known = [*_names(cls), *(["--config"] if config_option else [])]
    option = word.partition("=")[0]
    section, _, leaf = option.lstrip("-").replace("_", "-").rpartition(".")
    # The last part alone finds a nested option whose section was forgotten, or taken for another.
    nested = [name for name in known if name.lstrip("-").rpartition(".")[2] == leaf]
    if section in ("dqn", "ddpg", "td3", "sac"):
        nested.sort(key=lambda name: not name.startswith("--off-policy."))
    close = f"; did you mean {nested[0]}?" if nested else suggestion(option, known, "try --help")
    return f"{_printable(option)} is not an option{close}"


def _printable(word: str) -> str:
    return word if word.isprintable() and len(word) <= 60 else shown(word)


def _names(cls: type[Any], prefix: str = "") -> Iterator[str]:
    for item, option in options_of(cls):
        if not option.positional:
            yield shown_name(prefix, item.name)
        if isinstance(option, Switch):
            yield shown_name(prefix, f"no_{item.name}")
    for item, section in sections_of(cls):
        yield from _names(section, f"{prefix}{item.name}.")


def _overlay(values: dict[str, Any], parsed: Any, cls: type[Any], prefix: str = "") -> None:
    """Put what the command line gives over the values that hold without it."""
    for item, option in options_of(cls):
        given = getattr(parsed, item.name)
        if isinstance(option, Pairs):
            name = shown_name(prefix, item.name)
            pairs = [parse_pair(name, word) for words in given for word in words]
            values[item.name] = {**values.get(item.name, {}), **dict(pairs)}
        elif isinstance(option, Words):
            values[item.name] = [word for words in given for word in words]
        elif not isinstance(given, str):
            values[item.name] = given
        elif given != _UNSET:
            values[item.name] = option.parse(given)
    for item, section in sections_of(cls):
        inner = values.setdefault(item.name, {})
        _overlay(inner, getattr(parsed, item.name), section, f"{prefix}{item.name}.")
