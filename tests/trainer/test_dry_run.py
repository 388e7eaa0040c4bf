"""A dry run changes nothing of the training that follows, and names what is wrong with a run before it costs."""

import random
import re

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import LoraConfig
from support.digits import cut_off, given, mostly_cut_off, nothing, ones, written
from support.runs import CHARACTERS, Watching, has_one, same_parameters, sums
from transformers import TrainerCallback
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.callbacks import dry_run
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.monitoring.watch import RULES
from steer_trl.rewards import MathReward
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.trainer.dry_run.number_names import LEFT, TEMPLATE
from steer_trl.trainer.dry_run.rules import BY_NAME, DRY_RULES, OF_WHOLE_RUNS, ROWS

# The training afterwards.

HELD = {"hold_entropy": 0.9, "hold_entropy_unit": "nats", "advantage_shaping": "stare"}
SETTINGS = {
    "TRL's trainer": {"class": GRPOTrainer},
    "TRL's trainer, several epochs of a rollout": {"class": GRPOTrainer, "num_iterations": 2, "loss_type": "grpo"},
    "TRL's adaptive entropy bonus": {"class": GRPOTrainer, "entropy_coef": 0.01, "use_adaptive_entropy": True},
    "reference model and SGD": {"beta": 0.1, "optim": "sgd"},
    "mixed precision": {"bf16": True},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "held entropy, resampling": HELD | {"dynamic_sampling": "resample"},
    "adapter": {"lora": True, "advantage_shaping": ["steer", "stare"]},
    "random draws": {"advantage_shaping": "clip_cov", "num_iterations": 2},
    "state of methods": {"advantage_shaping": "stare", "stare_adaptive": True, "steps_per_generation": 4},
    "without padding": {"skip_padding": True, "advantage_shaping": "steer"},
    "noise on embeddings": {"neftune_noise_alpha": 5.0},
    "budget of tokens": {"max_generated_tokens": 150, "lr_scheduler_type": "constant"},
    "stream": {"stream": True},
    "files": {"log_completions": True, "log_tokens": 1, "save_strategy": "steps", "save_steps": 2},
}
TIMES = ("step_time", "runtime", "per_second")


class Recorder:
    """A reward that keeps the prompts that it was called with, and draws random numbers of each kind."""

    __name__ = "recorder"

    def __init__(self):
        self.prompts = []

    def __call__(self, prompts, completions, **_):
        self.prompts.append(list(prompts))
        draws = [random.random(), np.random.rand(), torch.rand(()).item()]
        return [text.count("1") + 0.1 * text.count("3") + 1e-3 * sum(draws) for text in completions]


def rows_of(dataset):
    yield from dataset


@pytest.fixture
def make(make_trainer):
    def of(settings):
        fields = dict(settings)
        cls = fields.pop("class", SteerGRPOTrainer)
        arguments = {"reward_funcs": Recorder()}
        if fields.pop("lora", False):
            arguments["peft_config"] = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        if fields.pop("stream", False):
            arguments["train_dataset"] = IterableDataset.from_generator(rows_of, gen_kwargs={"dataset": sums()})
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        return make_trainer(cls, trainer_arguments=arguments, **fields)

    return of


def without_times(value):
    """Return nested dictionaries and lists without the measured seconds."""
    if isinstance(value, dict):
        return {key: without_times(x) for key, x in value.items() if not any(word in str(key) for word in TIMES)}
    return [without_times(x) for x in value] if isinstance(value, list) else value


def traces(trainer):
    """All that a training leaves: prompts in their order, log, states, and the numbers that are drawn next."""
    optimizer = [value for state in trainer.optimizer.state_dict()["state"].values() for value in state.values()]
    our_parts = getattr(trainer, "parts", None)
    parts = (
        {} if our_parts is None else {name: part.state_dict() for name, part in our_parts.checkpoints._parts.items()}
    )
    return {
        "prompts": trainer.reward_funcs[0].prompts,
        "log": str(without_times(trainer.state.log_history)),
        "optimizer": [float(value.double().sum()) for value in optimizer if isinstance(value, torch.Tensor)],
        "parts": str(without_times(parts)),
        "position": (trainer._step, trainer.state.global_step, trainer.lr_scheduler.state_dict()["last_epoch"]),
        "random": (random.random(), np.random.rand(), torch.rand(()).item()),
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_a_dry_run_leaves_the_training_unchanged(make, tmp_path, name, capsys):
    without = make(SETTINGS[name])
    without.train()
    expected = traces(without)
    with_it = make(SETTINGS[name])
    before = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    dry_run(with_it)
    after = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert before == after
    assert capsys.readouterr().out.count("\n") > 8
    assert len(with_it.reward_funcs[0].prompts) >= 1
    with_it.reward_funcs[0].prompts.clear()
    with_it.train()
    assert same_parameters(without, with_it)
    actual = traces(with_it)
    for key, value in expected.items():
        assert actual[key] == value, key


def test_a_training_after_another_and_a_dry_run(make):
    """A second call of `train` begins anew, with the optimizer and the model of the first."""
    settings = {"advantage_shaping": "steer", "max_steps": 2}
    without = make(settings)
    without.train()
    without.train()
    with_it = make(settings)
    with_it.train()
    with_it.dry_run()
    with_it.train()
    assert same_parameters(without, with_it)


def test_the_trainer_is_left_as_it_was(make):
    trainer = make(HELD | {"dynamic_sampling": "resample"})
    before = dict(vars(trainer))
    weights = [parameter.clone() for parameter in trainer.model.parameters()]
    modes = [module.training for module in trainer.model.modules()]
    trainer.dry_run()
    assert (
        all(vars(trainer)[name] is value for name, value in before.items()) and vars(trainer).keys() == before.keys()
    )
    assert all(torch.equal(one, other) for one, other in zip(weights, trainer.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    assert modes == [module.training for module in trainer.model.modules()]


def test_a_failure_leaves_the_trainer_as_it_was(make):
    def fail(**_):
        raise OSError("the judge is away")

    settings = {"advantage_shaping": "stare"}
    without = make(settings)
    without.train()
    with_it = make(settings)
    reward = with_it.reward_funcs[0]
    with_it.reward_funcs[0] = fail
    with pytest.raises(OSError, match="the judge is away"):
        with_it.dry_run()
    with_it.reward_funcs[0] = reward
    with_it.train()
    assert same_parameters(without, with_it)


class Called(TrainerCallback):
    """Counts the calls of a user's callback."""

    calls = 0

    def on_train_begin(self, *_, **__):
        self.calls += 1


def test_callbacks_of_the_user_are_not_called(make):
    trainer = make({})
    callback = Called()
    trainer.add_callback(callback)
    trainer.dry_run()
    assert callback.calls == 0
    trainer.train()
    assert callback.calls == 1


def test_overrides_of_a_subclass_are_used(make):
    trainer = make({"class": Watching, "max_steps": 1})
    trainer.dry_run()
    # The rollout was kept in the twin.
    assert trainer.written == []


def test_a_run_without_an_update_is_refused(make, monkeypatch):
    trainer = make({})
    trainer.train_dataset = IterableDataset.from_generator(rows_of, gen_kwargs={"dataset": sums().select([])})
    with pytest.raises((CannotContinueError, ValueError)):
        dry_run(trainer)


# What a dry run says.


def answer_to(place):
    return f"{place % 7}{'5' * (place % 3)}"


def as_taught(prompts, completions, **_):
    answers = {chat[0]["content"]: answer_to(place) for place, chat in enumerate(CHAT)}
    return [
        float(completion[0]["content"] == answers[prompt[0]["content"]])
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


CHAT = [[{"role": "user", "content": f"{i}+{j}="}] for i in range(8) for j in range(4)]


def some(value):
    def reward(completion_ids, **_):
        return [value] * len(completion_ids)

    return reward


def by_prompt(prompts, **_):
    solved = {prompt: place % 2 for place, prompt in enumerate(dict.fromkeys(prompts))}
    return [float(solved[prompt]) for prompt in prompts]


def one_group_differs(completion_ids, **_):
    return [0.5, 1.0, *[float(row // 2 % 2) for row in range(2, len(completion_ids))]]


def accuracy_reward(completion_ids, **_):
    return [0.0] * len(completion_ids)


def accuracy_by_prompt(prompts, **_):
    return by_prompt(prompts)


def is_right(completion_ids, **_):
    return [float(ids[0] % 2) for ids in completion_ids]


def format_reward(completion_ids, **_):
    return [float(len(ids) % 2) for ids in completion_ids]


def mostly_empty(prompts, trainer):
    rollout = written(prompts, trainer)
    end = trainer.processing_class.eos_token_id
    ids = [ids if row % 3 == 0 else [end] for row, ids in enumerate(rollout["completion_ids"])]
    return given(prompts, trainer, ids)


def thinking(prompts, trainer):
    """Half of the completions end inside a thought."""
    tokenizer = trainer.processing_class
    texts = ["<think>1" if row % 2 else f"<think>1</think>{row % 10}" for row in range(len(prompts))]
    return given(prompts, trainer, [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts)["input_ids"]])


def sometimes_thinking(prompts, trainer):
    """A quarter of the completions end inside a thought."""
    tokenizer = trainer.processing_class
    texts = ["<think>1" if row % 4 == 0 else f"<think>1</think>{row % 10}" for row in range(len(prompts))]
    return given(prompts, trainer, [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts)["input_ids"]])


def two_digits(prompts, trainer):
    """The first token decides what is right, and the number of tokens differs within each group."""
    end = trainer.processing_class.eos_token_id
    firsts = [5 + (row // 4 + (row // 2 % 2) * (row % 2)) % 2 for row in range(len(prompts))]
    return given(prompts, trainer, [[first, *[4] * (row % 2), end] for row, first in enumerate(firsts)])


def certain(model):
    model.model.norm.weight.data *= 1000


def in_bfloat16(model):
    model.to(torch.bfloat16)


def broken_head(model):
    model.model.norm.weight.data[:] = torch.nan


def frozen(model):
    for weight in model.parameters():
        weight.register_hook(torch.zeros_like)


def sharp(model):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(12.0)


def teach(tokenizer, texts, begin=None):
    """Return a model that was trained on these texts, or on what follows the first `begin` in each."""
    model = tiny_qwen2(tokenizer, tie_word_embeddings=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        for row, text in enumerate(texts if begin else ()):
            labels[row, : len(tokenizer(text.partition(begin)[0] + begin)["input_ids"])] = -100
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.fixture(scope="module")
def taught():
    """Models that were trained with the chat template and without it, and their tokenizer."""
    tokenizer = tiny_tokenizer("0123456789+=assitntuer")
    answers = list(map(answer_to, range(len(CHAT))))
    seen = [
        tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": answer}], tokenize=False)
        for chat, answer in zip(CHAT, answers, strict=True)
    ]
    plain = [f"{chat[0]['content']}{answer}<eos>" for chat, answer in zip(CHAT, answers, strict=True)]
    models = {"seen": teach(tokenizer, seen), "plain": teach(tokenizer, plain)}
    return tokenizer, models | {"completions only": teach(tokenizer, seen, begin="assistant<end>")}


SIZES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 1e-4, "max_steps": 24}
MANY = {"per_device_train_batch_size": 128, "num_generations": 8, "max_completion_length": 10, "rollout": None}
WEAK = {"advantage_shaping": "steer", "steer_lambda_min": 0.9999}
BROKEN = {
    "unscored": {"reward": some(None)},
    "one_reward with all right": {"reward": some(1.0)},
    "one_reward with all wrong": {"reward": nothing},
    "unpaid_judge": {"reward": [accuracy_reward, format_reward]},
    "without_judge": {"reward": [accuracy_by_prompt, format_reward]},
    "no_advantage": {"reward": by_prompt},
    "dead_groups": {"reward": one_group_differs, "num_generations": 2, "per_device_train_batch_size": 24},
    "idle": {"class": SteerGRPOTrainer} | WEAK,
    "no_gradient by a method": {"class": SteerGRPOTrainer, "advantage_shaping": "f_grpo"},
    "no_gradient by frozen weights": {"model": frozen},
    "no_entropy": {"model": certain, "mask_truncated_completions": True},
    "hold_too_short": {"class": SteerGRPOTrainer, "advantage_shaping": "stare", "hold_entropy": 0.7, "max_steps": 2},
    "sampled_otherwise": {"model": sharp, "generation_kwargs": {"temperature": 0.1}, "reward": has_one} | MANY,
    "sampled_otherwise in our trainer": {"class": SteerGRPOTrainer, "model": sharp, "reward": has_one}
    | {"generation_kwargs": {"temperature": 0.1}}
    | MANY,
    "own_temperature": {"generation_kwargs": {"temperature": 0.9}},
    "never_ends": {"rollout": cut_off},
    "truncation": {"rollout": mostly_cut_off},
    "empty": {"rollout": mostly_empty},
    "unfinished": {"rollout": thinking, "characters": CHARACTERS + "</think>"},
    "unreadable": {"reward": "math"},
    "too_long": {"positions": 10},
    "template": {"taught": "plain", "reward": as_taught},
    "not_finite": {"class": SteerGRPOTrainer, "model": broken_head},
    "too_large_steps": {"learning_rate": 0.2},
    "rounded_steps": {"model": in_bfloat16, "learning_rate": 1e-6},
    "no_learning": {"warmup_steps": 1000},
    "no_learning without a rate": {"learning_rate": 0.0},
}
SOUND = {
    "TRL's trainer": {},
    "STARE, with held entropy": {"class": SteerGRPOTrainer, "hold_entropy": 0.7, "max_steps": 64}
    | {"advantage_shaping": "stare"},
    "STEER, resampling": {"class": SteerGRPOTrainer, "advantage_shaping": "steer", "dynamic_sampling": "resample"},
    "a method that acts on moved tokens": {
        "class": SteerGRPOTrainer,
        "advantage_shaping": "dcpo",
        "num_iterations": 2,
    },
    "chat": {"taught": "seen"},
    "chat, trained on completions only": {"taught": "completions only"},
    "a judge and a format": {"reward": [is_right, format_reward]},
}


@pytest.fixture
def look(make_trainer, tokenizer, taught):
    def run(settings):
        fields = SIZES | settings
        cls = fields.pop("class", GRPOTrainer)
        reward = fields.pop("reward", ones)
        prepare = fields.pop("model", lambda model: None)
        positions = fields.pop("positions", 4096)
        characters = fields.pop("characters", None)
        arguments = {"rollout_func": fields.pop("rollout", written), "reward_funcs": reward}
        if reward == "math":
            arguments["reward_funcs"] = MathReward(num_workers=1)
            arguments["train_dataset"] = sums().map(lambda row: {"solution": "1"})
        own = tokenizer if characters is None else tiny_tokenizer(characters)
        model = tiny_qwen2(own, max_position_embeddings=positions)
        prepare(model)
        if kind := fields.pop("taught", None):
            own, models = taught
            model = models[kind]
            # The tiny model ends or not as it was taught, and only the template is looked at.
            arguments["rollout_func"] = None
            arguments["train_dataset"] = Dataset.from_dict({"prompt": CHAT})
        arguments["processing_class"] = own
        if fields.pop("lora", False):
            arguments["peft_config"] = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        trainer = make_trainer(cls, model=model, trainer_arguments=arguments, **fields)
        return dry_run(trainer)

    return run


@pytest.mark.parametrize("name", BROKEN)
def test_a_fault_is_named_with_its_remedy(look, capsys, name):
    result = look(BROKEN[name])
    rule = BY_NAME[name.split()[0]]
    row = next(row for row, names in ROWS.items() if rule.name in names)
    assert rule.name in result.bad
    (shown,) = [one for one in result.rows if one.name == row]
    assert shown.mark == "bad" and rule.name in shown.rules and shown.remedy
    assert "-> " in capsys.readouterr().out


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_is_ok_in_every_row(look, name):
    result = look(SOUND[name])
    assert {row.mark for row in result.rows} == {"ok"}, result


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_a_screen(look, width):
    for settings in (SOUND["STEER, resampling"], BROKEN["unfinished"], BROKEN["template"]):
        result = look(settings)
        assert len(result.rows) <= 15
        assert all(len(line) <= width for line in result.table(width).splitlines())


def test_the_result_is_a_table_for_pandas(look):
    result = look(BROKEN["never_ends"])
    frame = pd.DataFrame(result.rows)
    assert list(frame["mark"]) == [row.mark for row in result.rows]
    assert result.to_dict()["numbers"] == result.numbers
    assert len(result.examples) == 3


def test_every_rule_has_a_row_or_is_about_whole_runs():
    placed = [name for names in ROWS.values() for name in names]
    assert len(placed) == len(set(placed))
    assert {*placed} | OF_WHOLE_RUNS == {rule.name for rule in (*RULES, *DRY_RULES)}
    assert not {*placed} & OF_WHOLE_RUNS


def test_every_own_rule_is_provoked():
    # A device's memory cannot be filled here, and `without_any_judge` is never bad.
    assert {rule.name for rule in DRY_RULES} - {"memory", "without_any_judge"} <= {name.split()[0] for name in BROKEN}


def test_a_template_that_the_model_answers_in_is_shown_with_its_surprise(look):
    """The tokens that open an answer are no targets in training on completions only, so they are never expected."""
    result = look(SOUND["chat, trained on completions only"])
    (row,) = [row for row in result.rows if row.name == "template"]
    assert result.numbers[TEMPLATE] > BY_NAME["template"].fires
    assert row.mark == "ok" and "completions only" in row.text


def test_the_surprise_of_a_template_does_not_depend_on_the_temperature(look):
    cold, warm = (look({"taught": "plain", "temperature": value}).numbers[TEMPLATE] for value in (0.05, 1.0))
    assert cold == pytest.approx(warm)


def row_of(result, name):
    (row,) = [row for row in result.rows if row.name == name]
    return row


def test_a_row_to_look_at_has_its_remedy_in_words(look):
    result = look({"rollout": sometimes_thinking, "characters": CHARACTERS + "</think>"})
    row = row_of(result, "endings")
    assert row.mark == "look" and row.rules == ("unfinished",)
    assert "Raise max_completion_length" in row.remedy and not row.remedy.endswith("?")


@pytest.mark.parametrize("settings", [{}, {"class": SteerGRPOTrainer, "correct_reward": "accuracy_reward"}])
def test_a_reward_for_correctness_that_pays_nothing_is_called_on_an_answer(look, settings):
    result = look(BROKEN["unpaid_judge"] | settings)
    row = row_of(result, "reward")
    assert row.rules == ("unpaid_judge",) and "'accuracy_reward' pays nothing" in row.remedy
    assert "call it on an answer that you write yourself" in row.remedy
    assert len(result.examples) == 3 and all(line.startswith("accuracy_reward 0: ") for line in result.examples)


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"reward": [some(None), accuracy_reward, format_reward]}, "unscored"),
        ({"reward": [accuracy_reward, format_reward], "rollout": mostly_cut_off}, "truncation"),
        ({"reward": [accuracy_by_prompt, format_reward], "rollout": mostly_cut_off}, "truncation"),
    ],
)
def test_another_cause_is_named_alone(look, settings, cause):
    result = look(settings)
    assert cause in result.bad and not {"unpaid_judge", "without_judge"} & {*result.bad}


def test_the_function_that_correct_reward_names_is_in_the_remedy(look):
    settings = {"class": SteerGRPOTrainer, "correct_reward": "accuracy_by_prompt"}
    row = row_of(look(BROKEN["without_judge"] | settings), "reward")
    assert "'accuracy_by_prompt' is the same" in row.remedy and "Set dynamic_sampling='resample', " in row.remedy
    row = row_of(look(BROKEN["without_judge"]), "reward")
    assert "correct_reward='accuracy_by_prompt'" in row.remedy


def test_format_rewards_alone_are_looked_at(look):
    row = row_of(look({"reward": [format_reward, ones]}), "reward")
    assert row.mark == "look" and "set correct_reward" in row.remedy
    assert row_of(look({"reward": format_reward}), "reward").mark == "ok"


def test_groups_of_two_are_named_for_a_method_that_does_little(look):
    idle = row_of(look(BROKEN["idle"] | {"num_generations": 2}), "methods")
    assert idle.rules == ("idle",) and "num_generations=2" in idle.remedy
    assert "num_generations" not in row_of(look(BROKEN["idle"]), "methods").remedy


def test_groups_are_those_that_dynamic_sampling_keeps(look):
    settings = {"class": SteerGRPOTrainer, "reward": [is_right, format_reward], "correct_reward": "is_right"}
    settings |= {"advantage_shaping": "none", "rollout": two_digits, "num_generations": 2}
    result = look(settings | {"dynamic_sampling": "resample"})
    informative = result.numbers["dynamic_sampling/informative"]
    assert 0 < informative < 1 - result.numbers["frac_reward_zero_std"]
    assert f"rewards of is_right differ in {100 * informative:.3g} % of" in row_of(result, "groups").text
    assert ", those of is_right in " in row_of(look(settings), "groups").text


def test_groups_that_wait_are_not_generated_again(look):
    settings = {"class": SteerGRPOTrainer, "advantage_shaping": "none", "dynamic_sampling": "resample"}
    settings |= {"dynamic_sampling_surplus": "keep", "dynamic_sampling_factor": 3}
    kept = row_of(look(settings), "run").text
    # Of three groups that are generated, two wait: the run generates a third as much as without them.
    dropped = row_of(look(settings | {"dynamic_sampling_surplus": "drop"}), "run").text
    tokens = [int(text.split(" tokens")[0].split()[-1].replace(",", "")) for text in (kept, dropped)]
    assert tokens[0] == pytest.approx(tokens[1] / 3, abs=1)


def test_the_time_is_without_evaluations(make_trainer, prompts):
    arguments = {"rollout_func": written, "reward_funcs": ones, "eval_dataset": prompts}
    fields = SIZES | {"eval_strategy": "steps", "eval_steps": 4}
    assert row_of(dry_run(make_trainer(trainer_arguments=arguments, **fields)), "run").text.endswith(
        " without evaluations"
    )
    assert "evaluations" not in row_of(dry_run(make_trainer(trainer_arguments=arguments, **SIZES)), "run").text


@pytest.mark.parametrize("cls", [GRPOTrainer, SteerGRPOTrainer])
def test_padding_stays_with_eager_attention(make_trainer, tokenizer, cls):
    model = tiny_qwen2(tokenizer, attn_implementation="eager")
    arguments = {"rollout_func": written, "reward_funcs": ones}
    settings = {"skip_padding": True} if cls is SteerGRPOTrainer else {}
    trainer = make_trainer(cls, model=model, trainer_arguments=arguments, **SIZES | settings)
    assert row_of(dry_run(trainer), "positions").text.endswith("the padding stays")


def test_the_end_of_a_prompt_is_shown_as_the_model_gets_it(look):
    result = look({"taught": "plain", "reward": nothing})
    assert result.prompt_end.endswith("<eos><start>assistant<end>")
    for width in (80, 120):
        assert "a prompt ends in: '<start>user<end>" in result.table(width)
        assert all(len(line) <= width for line in result.table(width).splitlines())


STEPS = {
    "the rate of first_run": ({"learning_rate": 3e-3}, "ok"),
    "the peak of a schedule that starts at 0": ({"learning_rate": 0.2, "warmup_steps": 12}, "bad"),
    "a peak that is not reached": ({"learning_rate": 0.2, "warmup_steps": 1000}, "ok"),
    "LoRA": ({"lora": True, "learning_rate": 2e-4}, "ok"),
    "LoRA in bfloat16, whose B begins at 0": ({"lora": True, "model": in_bfloat16, "learning_rate": 1e-5}, "ok"),
    "bfloat16, a rate that is not rounded away": ({"model": in_bfloat16, "learning_rate": 1e-3}, "ok"),
    "another optimizer": ({"optim": "sgd", "learning_rate": 5.0}, None),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_compared_with_the_weights(look, name):
    settings, mark = STEPS[name]
    result = look(settings)
    assert [row.mark for row in result.rows if row.name == "update"] == ([mark] if mark else [])


# The share of the gradient that each method leaves.


def size_of_gradient(trainer):
    """The sum of the absolute gradients with respect to the tokens' log-probabilities, in the first step."""
    found = []
    compute = trainer._get_per_token_logps_and_entropies

    def keep(*given, **named):
        logps, *others = compute(*given, **named)
        if logps.requires_grad:
            logps.register_hook(lambda gradient: found.append(gradient.abs().sum().item()))
        return logps, *others

    trainer._get_per_token_logps_and_entropies = keep
    trainer.train()
    return sum(found)


ONE_STEP = {"max_steps": 1, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "loss_type": "dapo"}
LEAVING = {
    "psr": {"advantage_shaping": "psr"},
    "steer": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "f_grpo": {"advantage_shaping": "f_grpo", "correct_threshold": 0.25},
    "entropy_advantage": {"advantage_shaping": "entropy_advantage"},
    "f_grpo and steer": {
        "advantage_shaping": ["f_grpo", "steer"],
        "steer_lambda_min": 0.3,
        "correct_threshold": 0.25,
    },
}


@pytest.mark.parametrize("name", LEAVING)
def test_the_share_that_methods_leave_is_that_of_the_gradient(make_trainer, name):
    """The gradients of two trainings on the same completions, with the methods and without."""
    arguments = {"rollout_func": written, "reward_funcs": ones}
    sizes = [
        size_of_gradient(make_trainer(SteerGRPOTrainer, trainer_arguments=arguments, **ONE_STEP | settings))
        for settings in ({"advantage_shaping": "none"}, LEAVING[name])
    ]
    trainer = make_trainer(SteerGRPOTrainer, trainer_arguments=arguments, **ONE_STEP | LEAVING[name])
    numbers = trainer.dry_run().numbers
    shares = {key: value for key, value in numbers.items() if key.startswith(LEFT)}
    assert {key.removeprefix(LEFT) for key in shares} == set(trainer.parts.shapers)
    assert sizes[1] > 0
    assert np.prod(list(shares.values())) == pytest.approx(sizes[1] / sizes[0], rel=1e-4)


def test_rows_that_a_broken_reward_explains_are_bad_too(look):
    result = look(BROKEN["one_reward with all wrong"])
    marks = {row.name: (row.mark, row.remedy) for row in result.rows}
    assert marks["groups"] == marks["methods"] == ("bad", "") and marks["reward"][1]
    assert any(example.startswith("reward 0") for example in result.examples)


def test_a_remedy_that_the_run_has_already_is_not_advised(look):
    settings = {"class": SteerGRPOTrainer, "reward": one_group_differs, "num_generations": 2}
    settings |= {"per_device_train_batch_size": 24, "advantage_shaping": "none"}
    for resampling in ({}, {"dynamic_sampling": "resample", "dynamic_sampling_max_attempts": 2}):
        result = look(settings | resampling)
        (row,) = [row for row in result.rows if row.name == "groups"]
        assert row.rules == ("dead_groups",) and ("dynamic_sampling" in row.remedy) == (not resampling)


def test_the_steps_of_a_run_that_ends_by_its_tokens_follow_from_them(look):
    settings = {"class": SteerGRPOTrainer, "lr_scheduler_type": "constant", "steps_per_generation": 2}
    settings |= {"gradient_accumulation_steps": 1}

    def steps_and_tokens(**fields):
        text = row_of(look(settings | fields), "run").text
        return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) (?:steps|tokens)", text)]

    steps, of_rollout = steps_and_tokens(max_steps=2)
    assert steps == 2
    assert steps_and_tokens(max_steps=100_000, max_generated_tokens=3 * of_rollout) == [6, 3 * of_rollout]
