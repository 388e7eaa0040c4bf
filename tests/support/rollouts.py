"""Whether the engine that writes completions has the weights that are trained: by the probabilities of both."""

import numpy as np
import torch


def written_by_the_policy_as_it_was(rollouts, drawn):
    """An engine's log-probabilities of what it drew are those of the model that the trainer held by then.

    `rollouts` have rows with `"prompt"`, `"completion"` and the trainer's `"logps"`; `drawn` are an engine's calls:
    prompts, completions and log-probabilities.
    """
    of_engine = {(tuple(p), tuple(c)): lp for call in drawn for p, c, lp in zip(*call, strict=True)}
    for rollout in rollouts:
        for row in rollout:
            engines = of_engine[tuple(row["prompt"]), tuple(row["completion"])]
            assert np.allclose(engines, row["logps"], atol=0.03)


def moved_since(first, rollout):
    """The model that the trainer held by this rollout is not the `first` one."""
    apart = [np.abs(np.array(row["logps"]) - logps_of(first, row)).mean() for row in rollout]
    assert np.mean(apart) > 0.1


def logps_of(model, row):
    """Of each token of a row's completion, by the model."""
    ids = torch.tensor([row["prompt"] + row["completion"]])
    with torch.no_grad():
        logps = model(ids).logits.log_softmax(-1)[0, len(row["prompt"]) - 1 : -1]
    return logps.gather(1, ids[0, len(row["prompt"]) :, None])[:, 0].numpy()
