"""What is installed is complete: recipes and engines in the wheel, and a source distribution that tests run in."""

import shutil
import tarfile
import zipfile
from functools import partial

import pytest
from support import ROOT, processes

LEFT_OUT = (".git", ".venv*", "build", "dist", "runs", "site", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")

run = partial(processes.run, launched=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "copy"
    return shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))


def test_the_wheel_has_exactly_the_package(source, tmp_path):
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path, ".")
    run(*build, folder=source)
    (path,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "steer_trl").rglob("*") if path.is_file()}
    assert names == {name for name in package if "__pycache__" not in name}
    assert len([name for name in names if name.startswith("steer_trl/configs/")]) > 30


def test_the_source_distribution_has_what_its_tests_read(source, tmp_path):
    build = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    run("-c", build, folder=source)
    (path,) = (source / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(tmp_path)
    (folder,) = tmp_path.glob("steer_trl-*")
    assert (folder / "experiments/letgo/plan.yaml").exists()
    assert not (folder / "experiments/starts").exists() and not list(folder.rglob("*.xz"))
    run("-m", "pytest", "tests/test_docs.py", folder=folder, PYTHONPATH=str(folder))
