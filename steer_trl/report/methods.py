"""One sentence about each method, for who has not read its paper: how the method's own file begins."""

import ast
import re
from collections.abc import Iterable
from importlib import resources


def sentences_about(names: Iterable[str]) -> dict[str, str]:
    """Return the first paragraph of the file of each method in `names` that is one of this package."""
    folder = resources.files("steer_trl").joinpath("shaping", "methods")  # read, not imported: that takes torch
    about = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        stem, is_python = re.subn(r"\.py$", "", file.name)
        if is_python and not stem.startswith("_"):
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            about[stem] = " ".join(text.split("\n\n", 1)[0].split())
    found = {}
    for name in names:
        written = re.escape(name).replace("_", "[_-]")  # a file can hold several methods: KL-Cov is kl_cov
        called = re.compile(rf"\b{written}\b", re.IGNORECASE)
        of_other = (text for text in about.values() if called.search(text.split(":", 1)[0]))
        sentence = about.get(name) or next(of_other, None)
        if sentence:
            found[name] = sentence
    return found
