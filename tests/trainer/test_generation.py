"""Generation without vLLM: the completions of Transformers' `generate`, from fewer passes over fewer rows."""

from collections import Counter

import pytest
import torch
import transformers
from datasets import Dataset
from peft import IA3Config, LoraConfig, PromptTuningConfig, TaskType
from scipy.stats import chi2
from support.runs import CHARACTERS, same_parameters
from transformers import GenerationConfig, Qwen2ForCausalLM
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.generation import cache, faster
from steer_trl.generation.cache import GrowingLayer, GrowingWindow, can_grow
from steer_trl.generation.decoding import decode, draw, has_dropout
from steer_trl.generation.limits import CRITERIA, PROCESSORS, NotServedError
from steer_trl.trainer import generation as of_trainer

VOCABULARY, PAD, ENDS = 50, 0, [1, 2]
SIZES = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": None, "eos_token_id": 1}
SIZES |= {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
HEADS = {"num_key_value_heads": 2, "head_dim": 8}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
MODELS = {
    "Qwen2": HEADS,
    "Qwen2, with windows": HEADS | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "Qwen3": HEADS,
    "Llama": HEADS,
    "Mistral": HEADS | {"sliding_window": 8},
    "Phi3": {"num_key_value_heads": 2},
    "Olmo2": {"num_key_value_heads": 2},
    "Gemma3": HEADS | {"sliding_window": 8, "layer_types": SLIDING},
    "Qwen3Moe": HEADS | {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2},
    "GPT2": {"n_positions": 128, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    "GptOss": HEADS | {"sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}
CLASSES = {"GPT2": "GPT2LMHeadModel"}
GROUP, PROMPTS, LONGEST = 8, (3, 7, 20, 1, 12), 64


def tiny(name, **settings):
    """A model whose weights are large, so that its attention is not the same for all tokens."""
    kind = name.split(",")[0]
    config = getattr(transformers, CONFIGS.get(kind, f"{kind}Config"))
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES.get(kind, f"{kind}ForCausalLM"))(config(**SIZES | MODELS[name] | settings))
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.mul_(8)
    # Torch's grouped products of experts have no double precision.
    if "num_experts_per_tok" in MODELS[name]:
        model.set_experts_implementation("eager")
    return model


def groups(lengths=PROMPTS, size=GROUP):
    """Prompts of these lengths, each as often as a group has completions, padded on the left; and their mask."""
    dice = torch.Generator().manual_seed(1)
    texts = [torch.randint(3, VOCABULARY, (length,), generator=dice) for length in lengths for _ in range(size)]
    texts = [texts[i // size * size] for i in range(len(texts))]
    ids = torch.stack([torch.cat([torch.full((max(lengths) - len(text),), PAD), text]) for text in texts])
    lengths_of_rows = torch.tensor([len(text) for text in texts])
    return ids, (torch.arange(max(lengths)).flip(0) < lengths_of_rows[:, None]).long()


def generate(model, ids, mask, seed=3, **settings):
    """The completions, and a random number drawn after them."""
    torch.manual_seed(seed)
    loop = {"custom_generate": settings.pop("custom_generate")} if "custom_generate" in settings else {}
    settings = {"max_new_tokens": LONGEST, "pad_token_id": PAD, "eos_token_id": ENDS, "top_k": 0} | settings
    config = GenerationConfig(**settings, disable_compile=True)
    with torch.no_grad():
        written = model.generate(input_ids=ids, attention_mask=mask, generation_config=config, **loop)
    return written, torch.rand(())


def lengths(written, width):
    return (written[:, width:] != PAD).sum(1)


SAMPLED = {"temperature": 1.2, "top_k": 12, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1}


class TestTheCompletions:
    @pytest.mark.parametrize("name", MODELS)
    def test_greedy_completions_are_those_of_generate(self, name):
        model, (ids, mask) = tiny(name), groups()
        width = ids.size(1)
        theirs, _ = generate(model, ids, mask, do_sample=False)
        ours, _ = generate(model, ids, mask, do_sample=False, custom_generate=decode)
        assert lengths(theirs, width).max() == LONGEST or lengths(theirs, width).unique().numel() > 2
        assert ours.shape[0] == theirs.shape[0]
        # If two tokens are equally likely up to rounding, each loop may take another one.
        steps = min(ours.size(1), theirs.size(1))
        differs = ours[:, :steps] != theirs[:, :steps]
        for row in differs.any(1).nonzero()[:, 0].tolist():
            step = int(differs[row].int().argmax())
            logits = model(input_ids=theirs[row : row + 1, :step], attention_mask=full_mask(mask[row], step)).logits
            tokens = torch.stack([ours[row, step], theirs[row, step]])
            assert logits[0, -1, tokens].diff().abs() < 1e-4
        assert differs.any(1).sum() <= GROUP
        assert differs.any() or torch.equal(ours, theirs)

    @pytest.mark.parametrize("name", MODELS)
    def test_sampled_completions_are_those_of_generate(self, name):
        """In double precision, where two tokens are never equally likely up to rounding."""
        model, (ids, mask) = tiny(name).double(), groups()
        theirs, their_next = generate(model, ids, mask, do_sample=True, **SAMPLED)
        ours, our_next = generate(model, ids, mask, do_sample=True, **SAMPLED, custom_generate=decode)
        assert torch.equal(ours, theirs) and our_next == their_next
        assert lengths(ours, ids.size(1)).unique().numel() > 10
        assert lengths(ours, ids.size(1)).max() > 40

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"temperature": 0.7, "min_new_tokens": 5, "no_repeat_ngram_size": 3},
            {"exponential_decay_length_penalty": (9, 1.1)},
            {"eos_token_id": 7},
            {"eos_token_id": [4, 9, 30]},
            {"eos_token_id": None},
            {"max_new_tokens": 1},
            {"max_new_tokens": 3},
            {"min_new_tokens": 60},
            {"pad_token_id": 1},
            {"suppress_tokens": [5, 6], "begin_suppress_tokens": [1, 2], "bad_words_ids": [[8, 9]]},
            {"sequence_bias": [[[3], 2.0], [[4, 5], 5.0]], "renormalize_logits": True, "remove_invalid_values": True},
            {"typical_p": 0.9, "epsilon_cutoff": 1e-3, "eta_cutoff": 1e-3, "top_h": 0.9},
            {"forced_bos_token_id": 9, "forced_eos_token_id": 1, "min_length": 30},
            {"num_return_sequences": 2},
            {"max_time": 1000.0},
        ],
        ids=str,
    )
    def test_every_served_setting_acts_as_in_generate(self, settings):
        model, (ids, mask) = tiny("Qwen2").double(), groups((3, 9))
        theirs, their_next = generate(model, ids, mask, do_sample=True, **settings)
        ours, our_next = generate(model, ids, mask, do_sample=True, **settings, custom_generate=decode)
        assert torch.equal(ours, theirs) and our_next == their_next

    def test_a_single_completion_is_that_of_generate(self):
        model, (ids, mask) = tiny("Qwen2").double(), groups((5,), 1)
        theirs, _ = generate(model, ids, mask, do_sample=True)
        assert torch.equal(generate(model, ids, mask, do_sample=True, custom_generate=decode)[0], theirs)


def full_mask(mask, length):
    return torch.cat([mask, mask.new_ones(length - len(mask))])[None]


class TestTheLaw:
    """Frequencies of whole completions against their exact probabilities, from passes without a cache."""

    STEPS, DRAWS, TEMPERATURE, TOP_P = 3, 20_000, 0.7, 0.9
    MOST = 1 - 1e-5
    """The probability that the statistic of the right law stays below the bound."""

    @pytest.fixture
    def model(self):
        torch.manual_seed(2)
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        sizes |= {"num_key_value_heads": 2}
        model = Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES | sizes | {"vocab_size": 7, "eos_token_id": 1}))
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.data.mul_(10)
        return model.eval()

    def next_token(self, model, text, temperature):
        """The law of the next token: its nucleus at this temperature."""
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([text])).logits[0, -1].double()
        law = (logits / temperature).softmax(0)
        order = law.argsort(descending=True)
        before = law[order].cumsum(0) - law[order]
        law[order[before >= self.TOP_P]] = 0
        return law / law.sum()

    def law_of_completions(self, model, prompt, temperature):
        law = {(): 1.0}
        for _ in range(self.STEPS):
            longer = {}
            for text, probability in law.items():
                if 1 in text:
                    longer[text] = probability
                    continue
                of_next = self.next_token(model, [*prompt, *text], temperature).tolist()
                longer |= {(*text, token): probability * share for token, share in enumerate(of_next)}
            law = longer
        return law

    def statistic(self, counts, law):
        """Pearson's statistic and its bound; rare completions count as one."""
        expected = {completion: probability * self.DRAWS for completion, probability in law.items() if probability}
        common = {completion: count for completion, count in expected.items() if count >= 10}
        rest = self.DRAWS - sum(common.values())
        pairs = [(counts[completion], count) for completion, count in common.items()]
        pairs += [(self.DRAWS - sum(count for count, _ in pairs), rest)] if rest > 1 else []
        assert len(pairs) > 20
        return sum((a - b) ** 2 / b for a, b in pairs), chi2.ppf(self.MOST, len(pairs) - 1)

    @pytest.mark.parametrize("prompt", [[3, 4], [6, 5, 2]], ids=str)
    def test_frequencies_follow_the_exact_probabilities(self, model, prompt):
        ids = torch.tensor([prompt]).repeat(self.DRAWS, 1)
        settings = {"do_sample": True, "temperature": self.TEMPERATURE, "top_p": self.TOP_P, "eos_token_id": 1}
        written, _ = generate(
            model, ids, torch.ones_like(ids), max_new_tokens=self.STEPS, custom_generate=decode, **settings
        )
        texts = written[:, len(prompt) :].tolist()
        counts = Counter(tuple(text[: text.index(1) + 1] if 1 in text else text) for text in texts)
        law = self.law_of_completions(model, prompt, self.TEMPERATURE)
        assert sum(law.values()) == pytest.approx(1) and len(law) > 100
        assert set(counts) <= {completion for completion, probability in law.items() if probability}
        found, bound = self.statistic(counts, law)
        assert found < bound
        # At another temperature the bound is passed, so the test can fail.
        found, bound = self.statistic(counts, self.law_of_completions(model, prompt, self.TEMPERATURE * 1.1))
        assert found > bound

    def test_a_row_draws_the_same_whichever_rows_have_left(self):
        laws = torch.rand(6, 40).softmax(1)
        torch.manual_seed(0)
        everyone = draw(laws, torch.arange(6), 6)
        rows = torch.tensor([1, 2, 5])
        torch.manual_seed(0)
        assert torch.equal(draw(laws[rows], rows, 6), everyone[rows])

    @pytest.mark.parametrize("rows", [torch.arange(2), torch.tensor([1, 3])], ids=str)
    def test_probabilities_that_are_no_numbers_are_an_error(self, rows):
        with pytest.raises(RuntimeError, match="probability tensor"):
            draw(torch.full((2, 5), float("nan")), rows, int(rows.max()) + 1)


def watch(model):
    """The shape `[rows, columns]` of each pass of a model."""
    shapes = []
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    inner.get_decoder().register_forward_pre_hook(
        lambda _, __, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


class TestTheWork:
    def test_each_prompt_passes_once_and_ended_completions_leave(self):
        model, (ids, mask) = tiny("Qwen2"), groups()
        shapes = watch(model)
        written, _ = generate(model, ids, mask, do_sample=True, custom_generate=decode)
        total = int(lengths(written, ids.size(1)).sum())
        assert shapes[0] == (len(PROMPTS), ids.size(1)) and {columns for _, columns in shapes[1:]} == {1}
        # The prompt's pass gives each completion its first token.
        assert total - len(ids) <= sum(rows for rows, _ in shapes[1:]) < 1.15 * (total - len(ids))
        shapes.clear()
        generate(model, ids, mask, do_sample=True)
        assert shapes[0] == ids.shape and sum(rows for rows, _ in shapes[1:]) > 1.4 * total

    @pytest.mark.parametrize("settings", [{"attention_dropout": 0.1}, {"attention_dropout": 0.0}], ids=str)
    def test_with_dropout_a_group_shares_no_prompt(self, settings):
        """Its completions would have the same units dropped from their prompt."""
        model, (ids, mask) = tiny("Qwen2", **settings), groups()
        shapes = watch(model)
        assert not has_dropout(model.eval())
        assert has_dropout(model.train()) == bool(settings["attention_dropout"])
        for training, rows in ((True, len(ids) if has_dropout(model) else 5), (False, 5)):
            shapes.clear()
            generate(model.train(training), ids, mask, do_sample=True, max_new_tokens=2, custom_generate=decode)
            assert shapes[0] == (rows, ids.size(1))

    @pytest.mark.parametrize("window", [None, 2, 5, 30])
    def test_growing_layers_equal_those_of_transformers(self, monkeypatch, window):
        """Random passes and rows, across the sizes at which memory is reserved anew."""
        monkeypatch.setattr(cache, "ROOM", 4)
        dice = torch.Generator().manual_seed(window or 0)
        theirs = DynamicLayer() if window is None else DynamicSlidingWindowLayer(window)

        def states(rows, columns):
            return [torch.randn(rows, 2, columns, 3, generator=dice) for _ in range(2)]

        theirs.update(*states(3, 6))
        rows = torch.tensor([0, 0, 1, 1, 2, 2, 2])
        ours = (GrowingLayer if window is None else GrowingWindow)(theirs, rows, most=60)
        theirs.batch_select_indices(rows)
        for step in range(40):
            columns = 1 if step % 7 else 6
            assert ours.get_mask_sizes(columns) == theirs.get_mask_sizes(columns)
            new = states(len(rows), columns)
            for mine, other in zip(ours.update(*new), theirs.update(*new), strict=True):
                assert torch.equal(mine, other)
            assert torch.equal(ours.keys, theirs.keys) and torch.equal(ours.values, theirs.values)
            assert ours.get_seq_length() == theirs.get_seq_length()
            if step % 11 == 10:
                rows = torch.arange(len(rows))[1:]
                ours.batch_select_indices(rows)
                theirs.batch_select_indices(rows)


RUN = {"skip_padding": True, "max_completion_length": 12, "advantage_shaping": "none"}
TEXTS = Dataset.from_dict({"prompt": ["1+1=", "7=", "1+2+3+4=", "2+2+2+2="] * 8})
OF_CHARACTERS = {"vocab_size": len(tiny_tokenizer(CHARACTERS)), "eos_token_id": 1}


@pytest.fixture
def write(make_trainer, tokenizer):
    """Let a trainer write completions: return them, and the shapes of the model's passes."""

    def run(trainer, seed=5):
        shapes = watch(trainer.model)
        prompts = [tokenizer(text)["input_ids"] for text in ("1+1=", "7=", "1+2+3+4=") for _ in range(4)]
        torch.manual_seed(seed)
        trainer.model.train()
        completions, _ = trainer._generate_single_turn(prompts, None, {}, 4)
        return completions, shapes

    return run


class TestTheSwitch:
    @pytest.mark.parametrize("method", ["none", "steer"])
    @pytest.mark.parametrize("skip", [None, True, False])
    def test_fast_decoding_is_on_where_padding_is_skipped(self, make_trainer, write, method, skip):
        trainer = make_trainer(SteerGRPOTrainer, advantage_shaping=method, skip_padding=skip)
        theirs, _ = write(make_trainer(GRPOTrainer))
        ours, shapes = write(trainer)
        assert ours == theirs
        assert (shapes[0][0] == 3) is trainer.args.skips_padding

    def test_nothing_stays_on_the_model(self, make_trainer, write):
        trainer = make_trainer(SteerGRPOTrainer, **RUN)
        before = set(vars(trainer.model))
        write(trainer)
        assert set(vars(trainer.model)) == before
        with pytest.raises(ZeroDivisionError), trainer.parts.generation.decode_faster():
            assert "generate" in vars(trainer.model)
            raise ZeroDivisionError
        assert set(vars(trainer.model)) == before

    @pytest.mark.parametrize("use_lora", [False, True])
    def test_a_training_writes_the_same_completions(self, train, monkeypatch, use_lora):
        """With rows that leave, and random numbers that go on after them."""
        arguments = {"train_dataset": TEXTS} | ({"peft_config": LoraConfig()} if use_lora else {})

        def run():
            settings = RUN | {"log_completions": True, "dynamic_sampling": "resample", "max_steps": 2}
            settings |= {
                "dynamic_sampling_factor": 2,
                "eval_strategy": "steps",
                "eval_steps": 1,
                "correct_threshold": 1.0,
            }
            trainer = train(
                SteerGRPOTrainer, trainer_arguments=arguments | {"eval_dataset": TEXTS.select(range(4))}, **settings
            )
            keys = ("rewards/count_reward/mean", "completions/mean_length", "eval_completions/mean_length")
            return trainer, [[entry.get(key) for key in keys] for entry in trainer.state.log_history]

        shapes = []
        monkeypatch.setattr(faster, "decode", counting(shapes))
        ours, our_log = run()
        monkeypatch.setattr(faster, "decode", refuse)
        theirs, their_log = run()
        assert len(shapes) > 6 and our_log == their_log
        for mine, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)

    def test_without_methods_training_is_that_of_trl(self, train):
        assert same_parameters(
            train(GRPOTrainer), train(SteerGRPOTrainer, advantage_shaping="none", skip_padding=None)
        )


def counting(calls):
    def count(model, input_ids, logits_processor, stopping_criteria, generation_config, **inputs):
        calls.append(len(input_ids))
        return decode(model, input_ids, logits_processor, stopping_criteria, generation_config, **inputs)

    return count


def refuse(*_, **__):
    raise NotServedError("the test compares with it")


class Overriding(SteerGRPOTrainer):
    def _generate_single_turn(self, *args, **kwargs):
        return super()._generate_single_turn(*args, **kwargs)


class WithOwnLoop(Qwen2ForCausalLM):
    def generate(self, *args, **kwargs):
        return super().generate(*args, **kwargs)


def with_rotations_by_length(tokenizer):
    config = tiny_qwen2(tokenizer).config
    config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    return Qwen2ForCausalLM(config)


def with_convolutions(tokenizer):
    layers = ["conv", "full_attention", "conv"]
    return transformers.Lfm2ForCausalLM(
        transformers.Lfm2Config(**SIZES | OF_CHARACTERS, num_key_value_heads=2, layer_types=layers)
    )


CAUSAL = {"task_type": TaskType.CAUSAL_LM}
LEFT_TO_GENERATE = {
    "a subclass": {"trainer_class": Overriding},
    "a model's own loop": {"model": lambda tokenizer: WithOwnLoop(tiny_qwen2(tokenizer).config)},
    "rotations by length": {"model": with_rotations_by_length},
    "convolutions": {"model": with_convolutions},
    "IA3": {"peft_config": IA3Config(target_modules=["k_proj"], feedforward_modules=[])},
    "prompt tuning": {"peft_config": PromptTuningConfig(num_virtual_tokens=2, **CAUSAL)},
    "beams": {"generation_kwargs": {"num_beams": 2}},
    "assisted": {"generation_kwargs": {"prompt_lookup_num_tokens": 2, "do_sample": False}, "rows": 1},
    "a processor that knows the batch": {"generation_kwargs": {"encoder_repetition_penalty": 1.2}},
    "a static cache": {"cache_implementation": "static"},
    "no cache": {"generation_kwargs": {"use_cache": False}},
    "prompts in parts": {"generation_kwargs": {"prefill_chunk_size": 4}},
    "noise": {"neftune_noise_alpha": 5.0},
}


@pytest.mark.filterwarnings("ignore:Position ids are not supported")
@pytest.mark.parametrize("case", LEFT_TO_GENERATE)
def test_unserved_settings_are_left_to_generate(make_trainer, tokenizer, monkeypatch, caplog, case):
    """The completions are TRL's to the last bit, and one line gives the reason."""
    settings = dict(LEFT_TO_GENERATE[case])
    rows = settings.pop("rows", 8)
    make_model = settings.pop("model", tiny_qwen2)
    arguments = {"peft_config": settings.pop("peft_config")} if "peft_config" in settings else {}
    kind = settings.pop("trainer_class", SteerGRPOTrainer)
    drawn = []
    monkeypatch.setattr("steer_trl.generation.decoding.draw", lambda *_: pytest.fail("the loop ran"))
    prompts = [tokenizer("1+1=")["input_ids"]] * rows

    for trainer_class in (GRPOTrainer, kind):
        torch.manual_seed(0)
        fields = settings | ({} if trainer_class is GRPOTrainer else RUN) | {"max_completion_length": 12}
        trainer = make_trainer(trainer_class, model=make_model(tokenizer), trainer_arguments=arguments, **fields)
        trainer.model.train()
        torch.manual_seed(1)
        drawn.append([trainer._generate_single_turn(prompts, None, {}, rows)[0] for _ in range(2)])
        lines = [record for record in caplog.records if record.name.startswith("steer_trl.trainer.generation")]
    assert drawn[0] == drawn[1]
    assert len(lines) == 1 and lines[0].levelname == "WARNING"


def test_a_method_that_a_user_puts_on_the_model_later_stays_there(make_trainer, tokenizer):
    calls = []
    trainer = make_trainer(SteerGRPOTrainer, **RUN)
    prompts = [tokenizer("1+1=")["input_ids"]] * 4
    trainer._generate_single_turn(prompts, None, {}, 4)
    generate = trainer.model.generate

    def counted(*args, **kwargs):
        calls.append(kwargs.keys())
        return generate(*args, **kwargs)

    trainer.model.generate = counted
    for _ in range(2):
        trainer._generate_single_turn(prompts, None, {}, 4)
    assert trainer.model.generate is counted
    assert len(calls) == 2 and all("custom_generate" not in names for names in calls)


@pytest.mark.parametrize("is_training", [True, False])
def test_generation_leaves_the_mode_of_the_model(make_trainer, tokenizer, monkeypatch, is_training):
    """As after TRL's paged generation, which would make the rest of an evaluation look like training."""
    trainer = make_trainer(SteerGRPOTrainer, **RUN)
    generate = GRPOTrainer._generate_single_turn

    def with_training(self, *args, **kwargs):
        generated = generate(self, *args, **kwargs)
        self.model.train()
        return generated

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", with_training)
    trainer.model.train(is_training)
    trainer._generate_single_turn([tokenizer("1+1=")["input_ids"]] * 4, None, {}, 4)
    assert trainer.model.training is is_training


@pytest.mark.parametrize("case", ["compiled", "ZeRO-3", "FSDP", "pictures"])
def test_models_without_fast_decoding_keep_transformers_loop(make_trainer, monkeypatch, caplog, case):
    trainer = make_trainer(SteerGRPOTrainer, **RUN)
    generation = of_trainer.Generation(trainer, is_wanted=True, is_compiled=case == "compiled")
    if case == "ZeRO-3":
        monkeypatch.setattr(of_trainer, "is_deepspeed_zero3_enabled", lambda: True)
    if case == "FSDP":
        trainer.is_fsdp_enabled = True
    if case == "pictures":
        monkeypatch.setattr(of_trainer, "ProcessorMixin", type(trainer.processing_class))
    for _ in range(2):
        with generation.decode_faster():
            assert "generate" not in vars(trainer.model)
    assert len([record for record in caplog.records if record.name == of_trainer.__name__]) == 1


@pytest.mark.parametrize("engine", ["use_vllm", "use_transformers_continuous_batching", "rollout_func"])
def test_other_engines_are_left_alone_without_a_line(make_trainer, caplog, engine):
    trainer = make_trainer(SteerGRPOTrainer, **RUN)
    setattr(trainer, engine, True)
    with trainer.parts.generation.decode_faster():
        assert "generate" not in vars(trainer.model)
    assert not caplog.records


def test_a_cache_of_another_kind_does_not_grow():
    assert not can_grow(None)
    assert not can_grow(transformers.DynamicCache(offloading=True))
    assert not can_grow(transformers.StaticCache(config=tiny("Qwen2").config, max_cache_len=8))
    assert can_grow(transformers.DynamicCache())


def test_each_served_step_remembers_no_row():
    """Their attributes after a call are those before it, so none depends on the rows of the batch."""
    served = {kind.__name__ for kind in PROCESSORS | CRITERIA}
    remembering = {"EncoderRepetitionPenaltyLogitsProcessor", "EncoderNoRepeatNGramLogitsProcessor"}
    remembering |= {"UnbatchedClassifierFreeGuidanceLogitsProcessor", "SynthIDTextWatermarkLogitsProcessor"}
    remembering |= {"PrefixConstrainedLogitsProcessor", "StopStringCriteria", "ConfidenceCriteria"}
    assert not served & remembering
