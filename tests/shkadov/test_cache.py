from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shkadov
from shkadov.cache import cache_directory, code_directory

# Compiles one function that takes constants of other files: film[0 + Q * LANES].
USE = """
{before}
import importlib.machinery, sys
sys.meta_path.insert(0, importlib.machinery.PathFinder)  # before that of an editable install
import numpy as np
from numba.core import config
from shkadov import solver
out = np.zeros(1, np.float32)
solver.observe(np.arange(40.0), np.zeros(1, np.int64), out)
print(int(out[0]), sum(solver.observe.stats.cache_hits.values()), config.CACHE_DIR or "-")
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    package = Path(shkadov.__file__).parent
    shutil.copytree(package, tmp_path / "shkadov", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def use(copy: Path, before: str = "", **variables: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(copy), "FLOWRL_CACHE": str(copy / "cache")}
    # Bytecode tells changes by the second.
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-c", USE.format(before=before)],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


@pytest.mark.parametrize("before", ["", "import numba"])
def test_compiled_code_is_made_anew_when_another_file_changes(copy: Path, before: str) -> None:
    assert use(copy, before) == ["4", "0", "-"]
    assert use(copy, before) == ["4", "1", "-"]
    schemes = copy / "shkadov" / "schemes.py"
    source = schemes.read_text()
    assert source.count("Q: Final = 1") == 1
    schemes.write_text(source.replace("Q: Final = 1", "Q: Final = 2"))
    assert use(copy, before) == ["8", "0", "-"]


def test_nothing_is_kept_beside_the_sources(copy: Path) -> None:
    use(copy)
    assert not list(copy.glob("shkadov/**/*.nb?"))
    assert list((copy / "cache").glob("numba-shkadov-*/**/*.nbc"))


def test_a_directory_of_the_users_comes_first(copy: Path) -> None:
    own = str(copy / "own")
    assert use(copy, NUMBA_CACHE_DIR=own) == ["4", "0", own]
    assert use(copy, NUMBA_CACHE_DIR=own) == ["4", "1", own]
    assert not (copy / "cache").exists()


def test_without_a_directory_nothing_is_kept(copy: Path) -> None:
    (copy / "file").write_text("")
    for _ in range(2):
        assert use(copy, FLOWRL_CACHE=str(copy / "file" / "cache")) == ["4", "0", "-"]
    assert not list(copy.glob("**/*.nb?"))


def test_every_source_counts(copy: Path) -> None:
    package = copy / "shkadov"
    before = code_directory(copy, package)
    (package / "params.py").write_text("")
    code_directory.cache_clear()
    assert code_directory(copy, package) != before


def test_the_platform_decides_where_states_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWRL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    if sys.platform.startswith("linux"):
        assert cache_directory() == Path("/somewhere/flowrl")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_directory() == Path.home() / ".cache" / "flowrl"
