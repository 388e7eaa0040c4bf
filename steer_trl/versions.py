"""Which versions of packages are installed, for what a run says of itself."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each of the `packages` that is installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
