"""What is installed is complete: recipes and engines in the wheel, and a source distribution that tests run in."""

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from support import ENVIRONMENT, ROOT

LEFT_OUT = (".git", ".venv*", "build", "dist", "runs", "site", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def run(*command, folder, **environment):
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy to build in: what is built leaves files behind."""
    folder = tmp_path_factory.mktemp("source") / "copy"
    return shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, ".")
    run(*build, folder=source)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "steer_trl").rglob("*") if path.is_file()}
    assert names == {name for name in package if "__pycache__" not in name}
    assert len([name for name in names if name.startswith("steer_trl/configs/")]) > 30


def test_recipes_are_found_by_name_where_there_is_no_repository(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = ("-m", "steer_trl.cli", "recipes")
    environment = {"PYTHONPATH": str(tmp_path / "installed")}
    assert "steer_qwen2.5_math_7b" in run(*command, folder=elsewhere, **environment)
    assert "advantage_shaping: psr" in run(*command, "psr", folder=elsewhere, **environment)


def test_the_source_distribution_has_what_its_tests_read(source, tmp_path):
    """The documentation names files, tests, recipes and functions: all of them are there."""
    build = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    run("-c", build, folder=source)
    (path,) = (source / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(tmp_path)
    (folder,) = tmp_path.glob("steer_trl-*")
    run("-m", "pytest", "tests/test_docs.py", folder=folder, PYTHONPATH=str(folder))
