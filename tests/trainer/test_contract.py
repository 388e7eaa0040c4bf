"""What steer_trl takes for granted of TRL's insides. When TRL changes, the failing assumption is named here first.

The first part holds the check that users have (`steer_trl/trainer/contract.py`): names. The rest is
what a name does not tell, for the versions that are called tested.
"""

import ast
import inspect
import re
import subprocess
import sys
from collections import deque
from functools import partial

import pytest
import torch
from support import ENVIRONMENT, ROOT
from torch.utils.checkpoint import checkpoint
from transformers import Trainer, masking_utils, modeling_utils
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.kernels import chunked_logprob
from trl.trainer import grpo_trainer
from trl.trainer.utils import RepeatSampler, add_fused_lm_head

from steer_trl import SteerGRPOTrainer
from steer_trl.options.trl import LOSSES
from steer_trl.trainer import contract
from steer_trl.trainer.contract import (
    ATTRIBUTES,
    METHODS,
    TESTED,
    broken_pieces,
    check_attributes,
    check_trl,
    find_names,
)

source = inspect.getsource
ATTRIBUTES_AND_METHODS = {*ATTRIBUTES, *METHODS}


def names_in(trainer_class):
    """The attributes of a trainer's class, and all that the code of its methods mentions."""
    functions = [inspect.unwrap(one) for one in vars(trainer_class).values() if inspect.isfunction(one)]
    return {name for function in functions for name in function.__code__.co_names} | set(dir(trainer_class))


def name_of(node):
    """What an attribute is taken from: the last name of `self._trainer`, of `super()`, of `trainer`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


class TestTheCheckAtImport:
    def test_untested_complete_versions_are_warned_of(self, monkeypatch, caplog):
        check_trl("1.18.2")
        (record,) = caplog.records
        assert "was tested with TRL 1.16, and 1.18.2 is installed" in record.getMessage()
        monkeypatch.delattr(GRPOTrainer, "_generate")
        for tested in TESTED:
            check_trl(f"{tested}.3")
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_that_is_gone_is_named(self, monkeypatch, name):
        owner = next(kind for kind in GRPOTrainer.__mro__ if name in vars(kind))
        monkeypatch.delattr(owner, name)
        if not hasattr(GRPOTrainer, name):  # else a parent has one as well
            with pytest.raises(ImportError, match=rf"TRL 1.18.2, which has no GRPOTrainer\.{name}\. "):
                check_trl("1.18.2")

    @pytest.mark.parametrize(("name", "argument"), [(name, one) for name in METHODS for one in METHODS[name].split()])
    def test_an_argument_that_is_gone_is_named(self, monkeypatch, name, argument):
        parameters = inspect.signature(getattr(GRPOTrainer, name)).parameters.values()

        def changed(*given, **named): ...

        changed.__signature__ = inspect.Signature([one for one in parameters if one.name != argument])
        monkeypatch.setattr(GRPOTrainer, name, changed)
        assert f"argument {argument!r} of GRPOTrainer.{name}" in broken_pieces()

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_an_attribute_that_is_gone_is_named(self, monkeypatch, name):
        self.forget(name, monkeypatch)
        assert f"attribute GRPOTrainer().{name}" in broken_pieces()

    def test_a_function_that_is_gone_is_named(self, monkeypatch):
        monkeypatch.delattr(grpo_trainer, "prepare_fsdp")
        assert broken_pieces() == ["function prepare_fsdp"]

    def forget(self, name, monkeypatch):
        """Take away every method of TRL's that mentions a name."""
        for kind in GRPOTrainer.__mro__:
            for method, function in list(vars(kind).items()) if kind not in Trainer.__mro__ else []:
                if name in find_names(type("Alone", (), {method: function})):
                    monkeypatch.delattr(kind, method)

    def test_names_that_moved_to_a_mixin_are_found(self, monkeypatch):
        monkeypatch.setattr(contract, "GRPOTrainer", type("GRPOTrainer", (GRPOTrainer,), {}))
        assert broken_pieces() == []

        class Mixin:
            def training_step(self):
                return [lambda: self._buffered_inputs]

        self.forget("_buffered_inputs", monkeypatch)
        monkeypatch.setattr(contract, "GRPOTrainer", type("GRPOTrainer", (Mixin, GRPOTrainer), {}))
        assert not [piece for piece in broken_pieces() if "_buffered_inputs" in piece]

    def test_no_source_text_is_needed_and_comments_do_not_count(self, monkeypatch):
        """A patcher compiles TRL's methods at run time; a removed attribute may live on in a comment."""
        scope = {}
        exec("def training_step(self):\n    # self._buffered_inputs is gone\n    return 0", scope)
        self.forget("_buffered_inputs", monkeypatch)
        monkeypatch.setattr(GRPOTrainer, "training_step", scope["training_step"], raising=False)
        with monkeypatch.context() as patch:
            patch.setattr(inspect, "getsource", None)
            assert "attribute GRPOTrainer()._buffered_inputs" in broken_pieces()

    @pytest.mark.parametrize(
        "settings", [{}, {"advantage_shaping": "stare"}, {"beta": 0.1}, {"use_liger_kernel": False}]
    )
    def test_a_trainer_has_the_attributes(self, make_trainer, monkeypatch, settings):
        monkeypatch.setattr(contract, "version", lambda package: "1.18.2")
        trainer = make_trainer(SteerGRPOTrainer, **settings)
        del trainer._buffered_inputs
        with pytest.raises(ImportError, match=r"TRL 1\.18\.2.* _buffered_inputs"):
            check_attributes(trainer)

    def test_an_attention_that_is_gone_is_named(self, monkeypatch):
        monkeypatch.setattr(modeling_utils.AttentionInterface, "_global_mapping", {})
        with pytest.raises(ImportError, match="sdpa"):
            check_trl()

    def test_the_contract_names_every_trl_attribute_in_use(self):
        """Read from our own code; what Transformers' trainer has as well is no concern of TRL's."""
        touched = set()
        for path in (ROOT / "steer_trl/trainer").rglob("*.py"):
            tree = ast.parse(path.read_text())
            owners = {"trainer", "_trainer", "GRPOTrainer"} | ({"self", "super"} if path.stem == "trainer" else set())
            touched |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and name_of(node.value) in owners
            }
            if path.stem == "trainer":
                touched |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        by_text = {"generation_config", "generation_kwargs", "_generate"}  # as keys
        by_text |= {"_finish_current_push"}  # in the Hub's room
        of_trl = names_in(GRPOTrainer) - names_in(Trainer)
        public = {"init_hf_repo", "push_to_hub", "save_model", "train", "evaluate"}  # a promise to everybody
        assert by_text <= ATTRIBUTES_AND_METHODS
        assert (touched & of_trl) - {"_tag_names"} - public <= ATTRIBUTES_AND_METHODS
        assert touched | by_text >= ATTRIBUTES_AND_METHODS, "named for nothing"

    def test_an_import_ends_in_the_one_error(self):
        code = (
            "import importlib.metadata as m, trl; del trl.GRPOTrainer._generate\n"
            "true, m.version = m.version, lambda name: '1.18.2' if name == 'trl' else true(name)\n"
            "from steer_trl import SteerGRPOTrainer"
        )
        done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        assert re.search(r"IncompatibleVersionError: .* TRL 1\.18\.2, which has no GRPOTrainer\._generate\.", last)
        assert "pip install 'trl>=1.16,<1.17'" in last


def test_the_trainers_arguments_are_trls_and_the_benchmarks():
    """Written out, so that an editor completes them: names, order, defaults."""
    ours = dict(inspect.signature(SteerGRPOTrainer).parameters)
    assert ours.pop("benchmarks").kind is inspect.Parameter.KEYWORD_ONLY
    # Those that a trainer between this one and TRL's adds.
    assert ours.pop("others").kind is inspect.Parameter.VAR_KEYWORD
    theirs = inspect.signature(GRPOTrainer).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [(p.name, p.kind, p.default) for p in theirs]


def branches(text):
    """What each loss does in a chain of branches on `self.loss_type`, by its name."""
    parts = re.split(r"(?:el)?if self\.loss_type (?:==|in) (.*):\n", text)
    return {
        name: body for names, body in zip(parts[1::2], parts[2::2], strict=True) for name in re.findall(r"\w+", names)
    }


def test_the_losses_match_the_table():
    tokens, denominators = source(GRPOTrainer._compute_loss).split("# Entropy bonus")[0].split('mode = "train" if')
    per_token, means = branches(tokens), branches(denominators)
    assert means.keys() == LOSSES.keys()
    for name, loss in LOSSES.items():
        assert loss.clips == ("torch.min(per_token_loss1, per_token_loss2)" in per_token[name]), name
        of_rollout = 'inputs["num_items_in_batch"]' in means[name]
        of_micro_batch = "(per_token_loss * mask).sum() / mask.sum().clamp(min=1.0)" in means[name]
        counts = "rollout tokens" if of_rollout else "micro-batch tokens" if of_micro_batch else "completions"
        assert loss.averages_over == counts, name


FORWARD = "self._get_per_token_logps_and_entropies("
LINES = {
    GRPOTrainer._generate: {
        "_generate returns eight things, nothing of which is masked yet": [
            "return prompt_ids, completion_ids, tool_mask, completions, logprobs, extra_fields, images, tool_images"
        ],
    },
    GRPOTrainer._generate_and_score_completions: {
        "completions are written before any forward pass": ("self._generate(prompts)", FORWARD),
        "truncated completions are masked after tools; both masks decide what is trained on and counted": [
            "loss_mask = completion_mask if tool_mask is None else completion_mask * tool_mask",
            "completion_mask = completion_mask * (~is_truncated)",
        ],
        "images that _generate does not return are those of the data set": ["images = dataset_images"],
        "a completion without a reward counts in no group": [
            "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)"
        ],
        "the rewards of a rollout are logged once": [
            *('self._metrics[mode]["reward"].append(', 'self._metrics[mode]["frac_reward_zero_std"].append('),
            '_metrics[mode][f"rewards/{reward_func_name}/mean"].append(',
            'self._logs["rewards"][name].extend(',
        ],
        "its extra columns are taken from _pending_extra_logs": ["self._pending_extra_logs.get(column"],
        "the old policy's log-probs are in the rollout as old_per_token_logps, if TRL made them": [
            'output["old_per_token_logps"] = old_per_token_logps'
        ],
        "rewards of all ranks are summed with reward_weights": [
            "(rewards_per_func * self.reward_weights.to(device).unsqueeze(0)).nansum(dim=1)"
        ],
    },
    GRPOTrainer._calculate_rewards: {
        "rewards of all ranks come from it": ["rewards_per_func = gather(rewards_per_func)"],
    },
    GRPOTrainer._prepare_inputs: {
        "micro-batches lie in _buffered_inputs, counted by _step, and were shuffled after they were scored": [
            "self._buffered_inputs[self._step % self.args.steps_per_generation]",
            *("self.args.steps_per_generation * self.num_iterations", "shuffle_sequence_dict(generation_batch)"),
        ],
    },
    GRPOTrainer.__init__: {
        "what an interrupted step leaves lies in these attributes": [
            *("self._step = ", "self._buffered_inputs = ", "self._metrics = ", "self._pending_metrics = "),
            *("self._pending_extra_logs = ", "self._entropy_window_stats = ", "self._current_train_step_time = "),
            "self._last_loaded_step = -1",
        ],
        "the loss asks for the policy's log-probs and entropies at its temperature": [
            *("temperature=self.temperature,", 'outputs=("log_probs", "entropy"),')
        ],
    },
    GRPOTrainer.training_step: {"_step counts micro-batches": ["self._step += 1"]},
    GRPOTrainer._compute_loss: {
        "the loss reads its entropy bonus's coefficient after its forward pass, and logs it only with one": (
            *(FORWARD, "if self._entropy_bonus_enabled:", "apply_coef = self.entropy_coef\n"),
            'self._metrics[mode]["policy_loss"]',
        ),
    },
    GRPOTrainer._generate_single_turn: {
        "Transformers draws by the trainer's generation_config and generation_kwargs": [
            *("generation_config=self.generation_config", "generation_kwargs=self.generation_kwargs")
        ],
    },
    VLLMGeneration.generate: {
        "vLLM's sampling is read from VLLMGeneration's attributes at each call": [
            *("self.temperature", "self.top_p", "self.top_k", "self.min_p", "self.repetition_penalty"),
            *("self.max_completion_length", "self.generation_kwargs", "self.structured_outputs_regex"),
        ],
    },
    GRPOTrainer.log: {
        "the log asks model.training which metrics are meant": ['"train" if self.model.training else "eval"'],
        "it shows the advantages that were appended once a rollout": ['"advantage": self._logs["advantages"]'],
    },
    GRPOTrainer._init_training_state: {
        "it returns the first epoch and its first batch": [
            "return epochs_trained, steps_trained_in_current_epoch",
            "init_training_references(self, max_steps, num_t",
        ],
    },
    GRPOTrainer._inner_training_loop: {
        "the epochs that are left are a range of them": ["for epoch in range(epochs_trained, num_train_epochs)"],
    },
    Trainer._save_checkpoint: {
        "a checkpoint's model is saved first": (
            "self.save_model(output_dir, _internal_call=True)",
            "self._save_optimizer_and_scheduler(output_dir)",
        ),
    },
    add_fused_lm_head: {
        "the fused head calls its backbone, and adds the routers' logits": [
            *('backbone_attr = "base_model"', "getattr(self, backbone_attr)(*args, **kwargs)"),
            'kwargs.setdefault("output_router_logits", True)',
        ],
    },
    GRPOTrainer._get_per_token_logps_and_entropies: {
        "the forward pass returns log-probs, entropies and the auxiliary loss": ["return logps, entropies, aux_loss"],
        "the mask says which tokens are scored, and the model is called with keywords only": (
            "labels = input_ids_batch.masked_fill(attention_mask_batch == 0, -100)",
            "model(**model_inputs, labels=labels, fused_lm_head=True)",
        ),
    },
    masking_utils._preprocess_mask_arguments: {
        "a mask of four dimensions is passed on as it is, before positions are looked at": (
            *("len(attention_mask.shape) == 4", "return True, attention_mask", "find_packed_sequence_indices"),
        ),
    },
    Qwen2Attention.forward: {
        "attention is looked up when a layer runs, and gets the model's keyword arguments": (
            *("ALL_ATTENTION_FUNCTIONS.get_interface(", "self.config._attn_implementation", "**kwargs,"),
        ),
    },
    chunked_logprob._torch_transform: {
        "the fused head divides by the temperature last": [
            "z = softcap * torch.tanh(z / softcap)\n    return z * inv_t"
        ],
    },
}
"""Lines that a function must have, by what is assumed of it; those of a tuple in its order."""
ASSUMPTIONS = [(text, function, lines) for function, texts in LINES.items() for text, lines in texts.items()]


class Layer(GradientCheckpointingLayer):
    """Records the keyword arguments of each of its runs."""

    def __init__(self):
        super().__init__()
        self.given = []

    def forward(self, states, **kwargs):
        self.given.append(kwargs)
        return (2 * states).sin()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_layer_that_runs_again_gets_the_same_keyword_arguments(use_reentrant):
    layer = Layer().train()
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=use_reentrant)
    places = torch.arange(3)
    layer(torch.ones(3, requires_grad=True), position_ids=places).sum().backward()
    assert len(layer.given) == 2
    assert all(given["position_ids"] is places for given in layer.given)


@pytest.mark.parametrize(("assumption", "function", "lines"), ASSUMPTIONS, ids=[text for text, *_ in ASSUMPTIONS])
def test_trls_code_is_as_this_package_assumes(assumption, function, lines):
    places = [source(function).find(line) for line in lines]
    assert -1 not in places, f"TRL has changed. Assumed: {assumption}"
    assert isinstance(lines, list) or places == sorted(places), f"TRL has changed. Assumed: {assumption}"


def test_the_fused_head_reads_config_and_embeddings():
    asked = set(re.findall(r"(?:self|model)\.(?!forward)(\w+)", source(add_fused_lm_head)))
    assert asked <= {"config", "get_output_embeddings", "num_experts", "num_experts_per_tok"}


def test_nothing_happens_before_completions_are_written(make_trainer, monkeypatch):
    """Dynamic sampling runs this method up to there for every attempt: what came before would happen once for each."""

    def stop(self, prompts):
        raise StopIteration

    def held(trainer):
        """What is plain by its value, all else by what it is."""
        plain = (int, float, str, bool, list, dict, tuple, set, deque, type(None))
        return {name: repr(value) if isinstance(value, plain) else id(value) for name, value in vars(trainer).items()}

    monkeypatch.setattr(GRPOTrainer, "_generate", stop)
    trainer = make_trainer(GRPOTrainer)
    trainer.model.train()
    before, random_state = held(trainer), torch.get_rng_state()
    with pytest.raises(StopIteration):
        trainer._generate_and_score_completions([{"prompt": "1+1="}] * 4)
    assert held(trainer) == before and torch.equal(torch.get_rng_state(), random_state)


def test_a_sampler_shuffles_each_pass_by_one_permutation():
    """A resume in a later pass draws as many, so that it reads that pass's order (`trainer/checkpoint.py`)."""

    def sampler():
        return RepeatSampler(range(12), mini_repeat_count=1, batch_size=4, shuffle=True, seed=3)

    whole, resumed = sampler(), sampler()
    passes = [list(whole) for _ in range(3)]
    for _ in range(2):
        torch.randperm(resumed.num_samples, generator=resumed.generator)
    assert list(resumed) == passes[2] and passes[0] != passes[1] != passes[2]
