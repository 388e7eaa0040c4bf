"""The settings that README's snippets make, by running them with the trainer and the data set left out."""

import re
from types import SimpleNamespace

from support import ROOT


def settings_of_snippets():
    """What each block that names `SteerGRPOConfig` gives it, in order."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    found = []

    def config(output_dir, **settings):
        found.append(settings)

    def nothing(*_, **__):
        return SimpleNamespace(train=nothing)

    for block in blocks:
        if "SteerGRPOConfig(" in block:
            code = "\n".join(line for line in block.splitlines() if not line.startswith(("from ", "import ")))
            names = dict.fromkeys(("SteerGRPOTrainer", "load_dataset", "accuracy_reward"), nothing)
            exec(code, names | {"SteerGRPOConfig": config})  # our own page
    return found
