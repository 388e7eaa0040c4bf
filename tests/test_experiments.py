"""The experiments: their pages are what the published files give, and a run leaves what its file says."""

import importlib

import pytest
from support import ROOT

PAGES = {"page": "results.md", "confirm": "results2.md"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_follows_from_the_published_files(monkeypatch, tmp_path, name):
    module = importlib.import_module(f"experiments.evidence.{name}")
    written = tmp_path / "page.md"
    drawn = tmp_path / "drawn.png"
    monkeypatch.setattr(module, "PAGE", written)
    monkeypatch.setattr(module, "PICTURE", drawn)
    module.main()
    assert written.read_text() == (ROOT / "experiments/results" / PAGES[name]).read_text()
    assert drawn.exists()


def test_the_claims_follow_from_the_published_files():
    measured = importlib.import_module("experiments.claims.measured")
    page = importlib.import_module("experiments.claims.page")
    assert (ROOT / "experiments/results/claims.md").read_text() == page.page(measured.Data.read())
