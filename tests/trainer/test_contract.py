"""What steer_trl takes for granted of TRL's insides. When TRL changes, the failing assumption is named here first.

The first part holds the check that users have (`steer_trl/trainer/contract.py`): names and signatures. The rest is
what a name does not tell, for the versions that are called tested.
"""

import ast
import inspect
import re
import subprocess
import sys
from collections import deque

import pytest
import torch
from support import ENVIRONMENT, ROOT
from support.runs import same_parameters
from transformers import Trainer
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.kernels import chunked_logprob
from trl.trainer.utils import RepeatSampler, add_fused_lm_head

from steer_trl import SteerGRPOTrainer
from steer_trl.options.trl import LOSSES
from steer_trl.trainer import contract
from steer_trl.trainer.contract import ATTRIBUTES, METHODS, TESTED, broken_pieces, check_trl, mentioned_by
from steer_trl.trainer.trl import MEANS_OF_TOKENS, append_to_log, replace_last


def parameters(function):
    return set(inspect.signature(function).parameters)


def source(function):
    return inspect.getsource(function)


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
    def test_a_tested_version_is_not_looked_at(self, monkeypatch, caplog):
        monkeypatch.delattr(GRPOTrainer, "_generate")
        for tested in TESTED:
            check_trl(f"{tested}.3")
        assert not caplog.records

    def test_a_version_that_has_everything_is_warned_of_once_and_trains_the_same(self, train, caplog):
        check_trl("1.18.2")
        (record,) = caplog.records
        assert "was tested with TRL 1.16, and 1.18.2 is installed" in record.getMessage()
        assert same_parameters(train(GRPOTrainer), train(SteerGRPOTrainer, advantage_shaping="none"))

    @pytest.mark.parametrize("name", METHODS)
    def test_a_method_that_is_gone_is_named(self, monkeypatch, name):
        owner = next(kind for kind in GRPOTrainer.__mro__ if name in vars(kind))
        monkeypatch.delattr(owner, name)
        if not hasattr(GRPOTrainer, name):  # else a parent has one as well
            with pytest.raises(ImportError, match=rf"TRL 1.18.2, which has no GRPOTrainer\.{name}\. "):
                check_trl("1.18.2")

    @pytest.mark.parametrize(("name", "argument"), [(name, one) for name in METHODS for one in METHODS[name]])
    def test_an_argument_that_is_gone_is_named(self, monkeypatch, name, argument):
        parameters = list(inspect.signature(getattr(GRPOTrainer, name)).parameters.values())
        kept = inspect.Signature([one for one in parameters if one.name != argument])

        def changed(*given, **named):
            raise AssertionError

        changed.__signature__ = kept
        monkeypatch.setattr(GRPOTrainer, name, changed)
        assert f"argument {argument!r} of GRPOTrainer.{name}" in broken_pieces()

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_an_attribute_that_is_gone_is_named(self, monkeypatch, name):
        self.forget(name, monkeypatch)
        assert f"attribute GRPOTrainer().{name}" in broken_pieces()

    def forget(self, name, monkeypatch):
        """Take away every method of TRL's that mentions a name."""
        for kind in GRPOTrainer.__mro__:
            for method, function in list(vars(kind).items()) if kind not in Trainer.__mro__ else []:
                if inspect.isfunction(function) and name in mentioned_by(type("Alone", (), {method: function})):
                    monkeypatch.delattr(kind, method)

    def test_what_has_moved_to_a_base_class_or_a_mixin_is_found(self, monkeypatch):
        monkeypatch.setattr(contract, "GRPOTrainer", type("GRPOTrainer", (GRPOTrainer,), {}))
        assert broken_pieces() == []

        class Mixin:
            def training_step(self):
                return [lambda: self._buffered_inputs]

        self.forget("_buffered_inputs", monkeypatch)
        monkeypatch.setattr(contract, "GRPOTrainer", type("GRPOTrainer", (Mixin, GRPOTrainer), {}))
        assert not [piece for piece in broken_pieces() if "_buffered_inputs" in piece]

    def test_it_names_all_that_the_trainers_room_touches(self):
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
        by_text = {"generation_config", "generation_kwargs", "_finish_current_push"}  # as keys; in the Hub's room
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
    theirs = inspect.signature(GRPOTrainer).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [(p.name, p.kind, p.default) for p in theirs]


def branches(text):
    """What each loss does in a chain of branches on `self.loss_type`, by its name."""
    parts = re.split(r"(?:el)?if self\.loss_type (?:==|in) (.*):\n", text)
    return {
        name: body for names, body in zip(parts[1::2], parts[2::2], strict=True) for name in re.findall(r"\w+", names)
    }


def test_the_losses_are_these_and_clip_and_average_as_the_table_states():
    tokens, denominators = source(GRPOTrainer._compute_loss).split("# Entropy bonus")[0].split('mode = "train" if')
    per_token, means = branches(tokens), branches(denominators)
    assert means.keys() == LOSSES.keys()
    for name, loss in LOSSES.items():
        assert loss.clips == ("torch.min(per_token_loss1, per_token_loss2)" in per_token[name]), name
        of_rollout = 'inputs["num_items_in_batch"]' in means[name]
        of_micro_batch = "(per_token_loss * mask).sum() / mask.sum().clamp(min=1.0)" in means[name]
        counts = "rollout tokens" if of_rollout else "micro-batch tokens" if of_micro_batch else "completions"
        assert loss.averages_over == counts, name


SHAPES = {
    "the forward pass is _get_per_token_logps_and_entropies, by these names": lambda: (
        {"model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"}
        <= parameters(GRPOTrainer._get_per_token_logps_and_entropies)
    ),
    "the forward pass returns log-probs, entropies and the auxiliary loss": lambda: (
        "return logps, entropies, aux_loss" in source(GRPOTrainer._get_per_token_logps_and_entropies)
    ),
    "a rollout is written by _generate_and_score_completions(inputs)": lambda: (
        parameters(GRPOTrainer._generate_and_score_completions) == {"self", "inputs"}
    ),
    "_generate returns the completions' ids and tool masks second and third, none of them masked yet": lambda: (
        "return prompt_ids, completion_ids, tool_mask," in source(GRPOTrainer._generate)
        and "completion_mask = completion_mask * (~is_truncated)"
        in source(GRPOTrainer._generate_and_score_completions)
    ),
    "_generate(prompts) returns eight things, tool masks of which decide what is trained on and counted": lambda: (
        parameters(GRPOTrainer._generate) == {"self", "prompts"}
        and "return prompt_ids, completion_ids, tool_mask, completions, logprobs, extra_fields, images, tool_images"
        in source(GRPOTrainer._generate)
        and "loss_mask = completion_mask if tool_mask is None else completion_mask * tool_mask"
        in source(GRPOTrainer._generate_and_score_completions)
    ),
    "completions are written before any forward pass, in one call": lambda: (
        source(GRPOTrainer._generate_and_score_completions).count("self._generate(prompts)") == 1
        and source(GRPOTrainer._generate_and_score_completions).index("self._generate(prompts)")
        < source(GRPOTrainer._generate_and_score_completions).index("self._get_per_token_logps_and_entropies(")
    ),
    "images that _generate does not return are those of the data set": lambda: (
        "images = dataset_images" in source(GRPOTrainer._generate_and_score_completions)
    ),
    "a completion without a reward counts in no group": lambda: (
        "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)"
        in source(GRPOTrainer._generate_and_score_completions)
    ),
    "the rewards of a rollout are logged once, and its extra columns are taken from _pending_extra_logs": lambda: all(
        line in source(GRPOTrainer._generate_and_score_completions)
        for line in (
            'self._metrics[mode]["reward"].append(',
            'self._metrics[mode]["frac_reward_zero_std"].append(',
            'self._metrics[mode][f"rewards/{reward_func_name}/mean"].append(',
            'self._logs["rewards"][name].extend(',
            "self._pending_extra_logs.get(column",
        )
    ),
    "micro-batches of a rollout lie in _buffered_inputs, counted by _step": lambda: (
        "self._buffered_inputs[self._step % self.args.steps_per_generation]" in source(GRPOTrainer._prepare_inputs)
    ),
    "a rollout lasts steps_per_generation * num_iterations micro-batches": lambda: (
        "self.args.steps_per_generation * self.num_iterations" in source(GRPOTrainer._prepare_inputs)
    ),
    "the old policy's log-probs are in the rollout as old_per_token_logps, if TRL made them": lambda: (
        'output["old_per_token_logps"] = old_per_token_logps' in source(GRPOTrainer._generate_and_score_completions)
    ),
    "what an interrupted step leaves lies in these attributes": lambda: all(
        f"self.{name} = " in source(GRPOTrainer.__init__)
        for name in (
            *("_step", "_buffered_inputs", "_metrics", "_pending_metrics", "_pending_extra_logs"),
            *("_entropy_window_stats", "_current_train_step_time"),
        )
    ),
    "_step counts micro-batches": lambda: "self._step += 1" in source(GRPOTrainer.training_step),
    "prompts are tokenized by _tokenize_prompts(prompts)": lambda: (
        parameters(GRPOTrainer._tokenize_prompts) == {"self", "prompts"}
    ),
    "completions are drawn by _generate_single_turn, by these names": lambda: (
        {"prompt_ids", "images", "multimodal_fields", "num_generations"}
        <= parameters(GRPOTrainer._generate_single_turn)
    ),
    "Transformers draws by the trainer's generation_config and generation_kwargs": lambda: (
        "generation_config=self.generation_config" in source(GRPOTrainer._generate_single_turn)
        and "generation_kwargs=self.generation_kwargs" in source(GRPOTrainer._generate_single_turn)
    ),
    "vLLM's sampling is read from VLLMGeneration's attributes at each call": lambda: all(
        f"self.{name}" in source(VLLMGeneration.generate)
        for name in (
            *("temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
            *("max_completion_length", "generation_kwargs", "structured_outputs_regex"),
        )
    ),
    "the log asks model.training which metrics are meant": lambda: (
        '"train" if self.model.training else "eval"' in source(GRPOTrainer.log)
    ),
    "_init_training_state returns the first epoch and its first batch, and knows the last step and epoch": lambda: (
        "return epochs_trained, steps_trained_in_current_epoch" in source(GRPOTrainer._init_training_state)
        and "init_training_references(self, max_steps, num_train_epochs" in source(GRPOTrainer._init_training_state)
        and "for epoch in range(epochs_trained, num_train_epochs)" in source(GRPOTrainer._inner_training_loop)
    ),
    "a checkpoint's model is saved first, by save_model(folder, _internal_call=True)": lambda: (
        source(Trainer._save_checkpoint).index("self.save_model(output_dir, _internal_call=True)")
        < source(Trainer._save_checkpoint).index("self._save_optimizer_and_scheduler(output_dir)")
    ),
    "rewards of all ranks come from _calculate_rewards, and are summed with reward_weights": lambda: (
        "rewards_per_func = gather(rewards_per_func)" in source(GRPOTrainer._calculate_rewards)
        and "(rewards_per_func * self.reward_weights.to(device).unsqueeze(0)).nansum(dim=1)"
        in source(GRPOTrainer._generate_and_score_completions)
    ),
    "the table of completions has the advantages of all ranks in _logs, appended once per rollout": lambda: (
        'self._logs["advantages"].extend(all_process_advantages.tolist())'
        in source(GRPOTrainer._generate_and_score_completions)
        and '"advantage": self._logs["advantages"]' in source(GRPOTrainer.log)
    ),
    "a rollout's tensors are shuffled together, after it was scored": lambda: (
        "shuffle_sequence_dict(generation_batch)" in source(GRPOTrainer._prepare_inputs)
    ),
    "the fused head asks a model for its config, its backbone as base_model, and its output embeddings": lambda: (
        set(re.findall(r"(?:self|model)\.(?!forward)(\w+)", source(add_fused_lm_head)))
        <= {"config", "get_output_embeddings", "num_experts", "num_experts_per_tok"}
        and 'backbone_attr = "base_model"' in source(add_fused_lm_head)
        and "getattr(self, backbone_attr)(*args, **kwargs)" in source(add_fused_lm_head)
        and 'kwargs.setdefault("output_router_logits", True)' in source(add_fused_lm_head)
    ),
    "the fused head divides by the temperature last": lambda: (
        "z = softcap * torch.tanh(z / softcap)\n    return z * inv_t" in source(chunked_logprob._torch_transform)
    ),
    "the loss asks for the policy's log-probs and entropies at its temperature": lambda: all(
        text in source(GRPOTrainer.__init__)
        for text in ("temperature=self.temperature,", 'outputs=("log_probs", "entropy"),')
    ),
    "the loss reads the coefficient of its entropy bonus after its forward pass, and logs it only with one": lambda: (
        source(GRPOTrainer._compute_loss).index("self._get_per_token_logps_and_entropies(")
        < source(GRPOTrainer._compute_loss).index("if self._entropy_bonus_enabled:")
        < source(GRPOTrainer._compute_loss).index("apply_coef = self.entropy_coef\n")
        < source(GRPOTrainer._compute_loss).index('self._metrics[mode]["policy_loss"]')
    ),
}


@pytest.mark.parametrize("assumption", SHAPES)
def test_shape(assumption):
    assert SHAPES[assumption](), f"TRL has changed. Assumed: {assumption}"


def test_the_loss_runs_the_forward_pass_before_it_reads_the_advantages(make_trainer):
    order = []

    class Watched(dict):
        def __getitem__(self, key):
            if key == "advantages":
                order.append("advantages")
            return super().__getitem__(key)

    class Watching(GRPOTrainer):
        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            if isinstance(self.watched, Watched):
                order.append("forward")
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

        watched = None

        def _compute_loss(self, model, inputs):
            self.watched = Watched(inputs)
            return super()._compute_loss(model, self.watched)

    trainer = make_trainer(Watching, max_steps=1)
    trainer.train()
    assert order[:2] == ["forward", "advantages"], "Assumed: the loss reads the advantages after its forward pass"


def test_advantages_may_be_given_per_token(train):
    class PerToken(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            advantages = inputs["advantages"].unsqueeze(1).expand(inputs["completion_ids"].shape)
            return super()._compute_loss(model, {**inputs, "advantages": advantages})

    one, other = train(PerToken), train(GRPOTrainer)
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, msg="Assumed: the loss takes advantages of shape (B, T)")


def test_metrics_are_lists_under_their_mode(make_trainer):
    trainer = make_trainer(GRPOTrainer)
    trainer.model.train()
    append_to_log(trainer, {"a": 0.0})
    replace_last(trainer, {"a": 1.0})
    trainer.log({})
    assert trainer.state.log_history[-1]["a"] == 1.0, "Assumed: _metrics[mode][key] is a list that the log averages"


def test_these_means_are_what_a_loss_logs_of_its_tokens(make_trainer):
    """Those of a hidden micro-batch are left out by name: under another name it would count as 0 again."""
    source_of_loss = source(GRPOTrainer._compute_loss)
    logged = set(re.findall(r'_metrics\[mode\]\["([^"]+)"\]\.append', source_of_loss))
    others = {"aux_loss", "entropy_coef", "policy_loss", "clip_ratio/low_min", "clip_ratio/high_max"}
    assert logged - others == MEANS_OF_TOKENS, "TRL has changed what a micro-batch logs"


def test_nothing_happens_before_completions_are_written(make_trainer):
    """Dynamic sampling runs this method up to there for every attempt: what came before would happen once for each."""

    class WrittenHere(Exception):
        pass

    class Stopping(GRPOTrainer):
        def _generate(self, prompts):
            raise WrittenHere

    trainer = make_trainer(Stopping)
    trainer.model.train()
    before, random_state = kept(trainer), torch.get_rng_state()
    with pytest.raises(WrittenHere):
        trainer._generate_and_score_completions([{"prompt": "1+1="}] * 4)
    assert kept(trainer) == before and torch.equal(torch.get_rng_state(), random_state)


def kept(trainer):
    """All that a trainer holds: what is plain by its value, all else by what it is."""
    plain = (int, float, str, bool, list, dict, tuple, set, deque, type(None))
    return {name: repr(value) if isinstance(value, plain) else id(value) for name, value in vars(trainer).items()}


def test_a_sampler_shuffles_each_pass_by_one_permutation():
    """A resume in a later pass draws as many, so that it reads that pass's order (`trainer/checkpoint.py`)."""

    def sampler():
        return RepeatSampler(range(12), mini_repeat_count=1, batch_size=4, shuffle=True, seed=3)

    whole, resumed = sampler(), sampler()
    passes = [list(whole) for _ in range(3)]
    for _ in range(2):
        torch.randperm(resumed.num_samples, generator=resumed.generator)
    assert list(resumed) == passes[2] and passes[0] != passes[1] != passes[2]
