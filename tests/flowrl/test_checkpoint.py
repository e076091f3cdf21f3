"""Checkpoint files: what is read back, and what is refused."""

import json
import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowrl import checkpoint as module
from flowrl.checkpoint import (
    Checkpoint,
    CheckpointError,
    Header,
    read_checkpoint,
    write_checkpoint,
)
from flowrl.shelf import Shelf
from flowrl.state import (
    StateError,
    generator_words,
    pack,
    set_generator,
    take,
    take_count,
    unpack,
)

N_ROWS = {"iterations": 3, "seconds": 3, "episodes": 7}


def header(transitions=300, run_id="a run", **changes):
    return Header(**{"run_id": run_id, "update": 3, "transitions": transitions, "n_ranks": 2,
                     "n_resumes": 0, "n_rows": N_ROWS, **changes})  # fmt: skip


def some_state():
    rng = np.random.default_rng(0)
    return {
        "learner/parameters": rng.standard_normal(100).astype(np.float32),
        "learner/n": np.array(5),
        "flags": rng.random((3, 2)) < 0.5,
        "words": rng.integers(0, 2**63, (2, 6)).astype(np.uint64),
        "nothing": np.zeros((0, 4)),
        "odd": np.array([np.nan, np.inf, -0.0, 1e300]),
    }


def write(path, **changes):
    write_checkpoint(path, Checkpoint(header(**changes), some_state()))
    return path


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    path = write(tmp_path / "c.h5")
    found = read_checkpoint(path)
    assert found.header == header()
    assert found.state.keys() == some_state().keys()
    for name, array in some_state().items():
        assert found.state[name].dtype == array.dtype
        assert found.state[name].shape == array.shape
        assert found.state[name].tobytes() == array.tobytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.h5"]


def sign(path):
    """Make a file look as if it had been written so."""
    content = path.read_bytes()
    path.write_bytes(b"\0" * 512 + content[512:])
    module._sign(path)


def edit(path, change):
    """Change a checkpoint's HDF5 part, as somebody could who knows the format."""
    with h5py.File(path, "r+") as file:
        change(file)
    sign(path)


def set_header(**changes):
    def change(file):
        file.attrs["header"] = json.dumps({**json.loads(file.attrs["header"]), **changes})

    return change


def replace(name, make):
    def change(file):
        del file[f"state/{name}"]
        make(file["state"], name)

    return change


def put(path, start):
    path.write_bytes(start + path.read_bytes()[len(start) :])


CORRUPTIONS = {
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut within the block": lambda path: os.truncate(path, 100),
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "foreign": lambda path: path.write_bytes(b"GIF89a" * 1000),
    "another HDF5 file": lambda path: h5py.File(path, "w").close(),
    "newer": lambda path: put(path, b"flowrl-checkpoint 2"),
    "version no number": lambda path: put(path, b"flowrl-checkpoint x"),
    "no header": lambda path: edit(path, lambda file: file.attrs.pop("header")),
    "header no JSON": lambda path: edit(path, lambda file: file.attrs.modify("header", "{")),
    "header a number": lambda path: edit(path, lambda file: file.attrs.create("header", 3.0)),
    "negative count": lambda path: edit(path, set_header(update=-1)),
    "count a text": lambda path: edit(path, set_header(n_ranks="2")),
    "lacks a table": lambda path: edit(path, set_header(n_rows={"iterations": 3})),
    "texts": lambda path: edit(path, replace("odd", lambda g, n: g.create_dataset(n, data=["x"]))),
    "a soft link": lambda path: edit(
        path, replace("odd", lambda g, n: g.__setitem__(n, h5py.SoftLink("/state/words")))),
    "a link to a file": lambda path: edit(
        path, replace("odd", lambda g, n: g.__setitem__(n, h5py.ExternalLink("/etc/passwd", "/")))),
    "bytes of another file": lambda path: edit(
        path, replace("odd", lambda g, n: g.create_dataset(
            n, (8,), "u1", external=[("/etc/passwd", 0, 8)]))),
    "larger than the file": lambda path: edit(
        path, replace("odd", lambda g, n: g.create_dataset(
            n, (2**40,), "f8", chunks=(2**20,), compression="gzip"))),
}  # fmt: skip


@pytest.mark.parametrize("corruption", list(CORRUPTIONS))
def test_no_other_file_is_taken_for_a_checkpoint(tmp_path, corruption):
    path = write(tmp_path / "c.h5")
    CORRUPTIONS[corruption](path)
    content = path.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_noticed(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("bytes") / "c.h5")
    content = bytearray(path.read_bytes())
    # The zeros behind the text of the block say nothing.
    used = content.index(b"\0")
    place = data.draw(st.one_of(st.integers(0, used - 1), st.integers(512, len(content) - 1)))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_the_newest_are_kept_and_leftovers_removed(tmp_path):
    shelf = Shelf(tmp_path / "run.h5", keep=2)
    shelf.directory.mkdir()
    leftover = shelf.directory / ".000000000100.h5.host-1-abc.tmp"
    leftover.write_bytes(b"half a file")
    assert shelf.paths() == []
    for transitions in (100, 200, 300):
        shelf.save(Checkpoint(header(transitions), some_state()))
    names = sorted(path.name for path in shelf.directory.iterdir())
    assert names == ["000000000200.h5", "000000000300.h5"]


def test_an_older_one_is_taken_where_the_newest_is_damaged(tmp_path):
    shelf = Shelf(tmp_path / "run.h5", keep=9)
    for transitions in (100, 200, 300):
        shelf.save(Checkpoint(header(transitions), some_state()))
    os.truncate(shelf.paths()[0], 1000)
    (shelf.directory / ".000000000400.h5.host-1-abc.tmp").write_bytes(b"half a file")
    said = []
    assert shelf.newest("a run", N_ROWS, said.append).header.transitions == 200
    assert len(said) == 1
    assert "000000000300.h5: cut short" in said[0]
    # Rows that the results file lacks, after a power cut say.
    write_checkpoint(shelf.paths()[1], Checkpoint(
        header(200, n_rows={**N_ROWS, "episodes": 8}), some_state()))  # fmt: skip
    assert shelf.newest("a run", N_ROWS, said.append).header.transitions == 100
    with pytest.raises(CheckpointError, match="cut short"):
        shelf.newest("another run", N_ROWS, said.append)
    shelf.paths()[0].unlink()
    with pytest.raises(CheckpointError, match="of another run"):
        shelf.newest("another run", N_ROWS, said.append)


@pytest.mark.parametrize("fault", ["replace", "fsync", "truncate"])
def test_a_write_that_fails_leaves_the_earlier_file(tmp_path, monkeypatch, fault):
    path = write(tmp_path / "c.h5")
    before = path.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, fault, fails)
    with pytest.raises(CheckpointError, match="No space left on device"):
        write(path, transitions=500)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.h5"]


def test_a_full_disk_is_one_line(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "allocate", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        write(tmp_path / "c.h5")
    assert not list(tmp_path.iterdir())


def test_a_generator_goes_on_from_its_words():
    rng = np.random.Generator(np.random.PCG64(3))
    rng.integers(0, 2, 3, np.uint32)  # leaves half a word behind
    words = generator_words(rng)
    other = np.random.Generator(np.random.PCG64(4))
    set_generator(other, words)
    for draw in (lambda g: g.integers(0, 2**32, 5, np.uint32), lambda g: g.standard_normal(9)):
        np.testing.assert_array_equal(draw(rng), draw(other))


def test_packed_states_come_back_and_damaged_ones_are_refused():
    block = pack(some_state())
    for name, array in unpack(np.append(block, np.zeros(50, np.uint8))).items():
        assert array.tobytes() == some_state()[name].tobytes()
    for damaged in (block[:5], block[:50], block[:-1], block[::-1], np.zeros(0, np.uint8)):
        with pytest.raises(StateError):
            unpack(damaged)


def test_a_state_that_does_not_fit_is_named():
    state = {"a": np.zeros((2, 3)), "n": np.array(-1)}
    assert take(state, "a", np.float64, (None, 3)).shape == (2, 3)
    for name, dtype, shape in (("b", np.float64, (2, 3)), ("a", np.float32, (2, 3)),
                               ("a", np.float64, (2, 4)), ("a", np.float64, (2,))):  # fmt: skip
        with pytest.raises(StateError, match=name):
            take(state, name, dtype, shape)
    with pytest.raises(StateError, match="n must be 0 to"):
        take_count(state, "n")
