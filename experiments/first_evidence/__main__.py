"""The page and the picture of the first 49 published runs, which `docs/evidence/*.json` hold. Nothing is trained.

python experiments/first_evidence

They were made by an earlier version, from one start, on one split of the problems; `experiments/evidence` makes those
that came after them.
"""

import argparse
from pathlib import Path

from figure import picture
from page import page

PUBLISHED = Path(__file__).parents[2] / "docs/evidence"


def main() -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    folder = parser.parse_args().published
    (folder / "index.md").write_text(page(folder))
    picture(folder, folder / "evidence.png")


if __name__ == "__main__":
    main()
