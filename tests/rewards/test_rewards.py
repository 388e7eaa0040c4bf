r"""`MathReward`: the last box only, math-verify's verdict, a deadline that holds, and TRL's contract."""

import pickle
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest
from datasets import Dataset
from support import jobs
from support.hostile import HOSTILE
from support.jobs import fail, keep, kill_or_return, nothing, take_memory

from steer_trl import SteerGRPOTrainer
from steer_trl.rewards import MathReward
from steer_trl.rewards.answers import answer_line, bare, boxed, last_boxed, text_of
from steer_trl.rewards.math_reward import METRIC_KEYS
from steer_trl.rewards.workers import Workers

TOWER = r"\boxed{5^{5^{5^{5^5}}}}"


@pytest.fixture(scope="module")
def reward():
    return MathReward(timeout=0.5)  # seconds of CPU time: an easy answer takes hundredths


def test_hostile_answers_get_their_expected_verdicts(reward):
    assert len(HOSTILE) >= 300
    completions, golds, expected = zip(*HOSTILE, strict=True)
    verdicts = reward.judge(completions, golds)
    surprises = [
        (completion[:80], gold, verdict.correct)
        for completion, gold, right, verdict in zip(completions, golds, expected, verdicts, strict=True)
        if right is not None and verdict.correct is not right
    ]
    assert surprises == []
    assert any(verdict.timed_out for verdict in verdicts)  # else the deadline was never put to the test


class TestWhereTheAnswerStands:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            (r"\boxed{34}", "34"),
            (r"\boxed{\frac{1}{2}} then \boxed {x_{1}}", "x_{1}"),
            (r"\boxed{\{1,2\}}", r"\{1,2\}"),
            (r"\boxed{a\\}", r"a\\"),
            (r"\boxed{1} but \boxed{2", None),
            (r"\boxed{1} as \boxed 2", "2"),
            (r"\boxed{1}, which I put into a \boxed as asked", "1"),
            (r"\boxed{1}, and no more \boxed", "1"),
            (r"$\boxed 7$ apples", "7"),
            (r"\(\boxed x+1\) holds", "x+1"),
            (r"\boxed \frac12", r"\frac12"),
            (r"\boxed 7, or was it 8?", None),
            (r"\boxed " + "7" * 300, None),
            (r"\fbox{1}", "1"),
            (r"\boxed{1} \framebox{2}", "2"),
            (r"\boxedfill{1}", None),
        ],
    )
    def test_the_last_box_is_the_answer(self, text, answer):
        assert last_boxed(text) == answer

    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ("Answer: 34", "34"),
            ("so\n**Answer:** $34$\n", "34"),
            ("Answer: 33\nAnswer: \\boxed{34}", "34"),
            ("answer : 34 apples", "34 apples"),
            ("The answer is 34", None),
            ("Final Answer:\n\n34", "34"),
            ("**Final answer:**\n\n$$\n34\n$$\nThat is it.", "34"),
            ("- answer\uff1a `34`", "34"),
            ("Answer:", ""),
        ],
    )
    def test_the_last_answer_line_is_the_answer(self, text, answer):
        assert answer_line(text) == answer

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("34", r"\boxed{34}"),
            (34, r"\boxed{34}"),
            (r" $\frac{1}{2}$ ", r"\boxed{\frac{1}{2}}"),
            (r"so $\boxed{3}$, as \boxed{4}", r"\boxed{4}"),
            ("$$x+1$$", r"\boxed{x+1}"),
            (r"18\$", r"\boxed{18\$}"),
            ("$3$ and $4$", r"\boxed{$3$ and $4$}"),
        ],
    )
    def test_answers_of_data_sets_are_boxed(self, answer, expected):
        assert boxed(answer) == expected
        assert boxed(bare(expected)) == expected

    def test_the_text_of_a_completion_is_its_last_message(self):
        parts = [{"role": "tool", "content": "2"}, {"role": "assistant", "content": [{"type": "text", "text": "1"}]}]
        assert {text_of(one) for one in ("1", [{"role": "assistant", "content": "1"}], parts)} == {"1"}
        tool = [{"role": "assistant", "content": "1"}, {"role": "tool", "content": r"\boxed{5}"}]
        assert {text_of(one) for one in ("", [], tool, [{"role": "assistant", "content": None}])} == {""}


class TestAsATrlReward:
    def test_a_completion_without_a_gold_answer_gets_no_reward(self):
        completions = [r"\boxed{34}", r"\boxed{33}", [{"role": "assistant", "content": r"\boxed{34}"}], r"\boxed{1}"]
        solutions = ["34", r"\boxed{34}", 34, None]
        assert MathReward()(completions=completions, solution=solutions) == [1.0, -1.0, 1.0, None]
        assert MathReward(incorrect=0.0)(completions=completions, solution=solutions) == [1.0, 0.0, 1.0, None]

    def test_answer_lines_count_only_if_asked_for(self):
        texts = ["Answer: 34", r"\boxed{34}"]
        assert MathReward()(texts, ["34"] * 2) == [-1.0, 1.0]
        assert MathReward(answer_format="answer_line")(texts, ["34"] * 2) == [1.0, -1.0]
        both = [*texts, "Answer: 34, no, \\boxed{33}", r"\boxed{34}. Answer: 33"]  # where there is a box, it counts
        assert MathReward(answer_format="either")(both, ["34"] * 4) == [1.0, 1.0, -1.0, 1.0]

    def test_unanswered_and_timed_out_shares_are_logged(self, reward):
        metrics, columns = {}, {}
        completions = [TOWER, r"\boxed{34}", "no answer", r"\boxed{33}"]
        reward(completions, ["34"] * 4, log_extra=columns.__setitem__, log_metric=metrics.__setitem__)
        assert metrics == dict.fromkeys(METRIC_KEYS, 0.25)
        assert columns == {"solution": ["34"] * 4, "answer": ["5^{5^{5^{5^5}}}", "34", None, "33"]}

    def test_gold_answers_are_tried_before_training(self, make_trainer):
        data = Dataset.from_dict({"prompt": ["2+2=", "what?"], "solution": [r"\boxed{4}", "the number of apples"]})
        with pytest.raises(ValueError, match=r"1 of its .*'the number of apples': only equal to itself"):
            make_trainer(SteerGRPOTrainer, trainer_arguments={"reward_funcs": MathReward(), "train_dataset": data})

    def test_equal_answers_share_a_vote_and_unreadable_golds_are_named(self, reward):
        votes = [reward.judge([rf"\boxed{{{a}}}"], ["7"])[0].vote for a in ("6", "6.0", "x=6", "x", "1/2", "0.5")]
        assert votes == ["6", "6", "6", "x", "1/2", "1/2"]
        faults = {
            "": "no answer",
            None: "no answer",
            "???": "no answer",
            "proof": "proof",
            "33=34": "only equal to itself",
        }
        faults |= {"the number of apples": "only equal to itself", TOWER: "not compared in time"}
        faults |= {'{"inputs": ["1"], "outputs": ["2"]}': "program", '{"ground_truth": "4"}': "structure"}
        readable = {"4", r"\text{June 20}", r"5 \text{ cm}", "Evelyn"}
        assert reward.unreadable(faults.keys() | readable) == faults

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"correct": float("nan")}, "correct must be in .*, got nan"),
            ({"correct": 0.0, "incorrect": 0.0}, "incorrect must be in .*, got 0.0: a wrong answer must be worth"),
            ({"timeout": 0}, "timeout must be in .*, got 0"),
            ({"num_workers": 0}, "num_workers must be in .1, inf., got 0"),
            ({"answer_format": "box"}, "answer_format='box' is unknown"),
        ],
    )
    def test_wrong_arguments_are_refused(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            MathReward(**wrong)


class TestWorkers:
    @pytest.fixture
    def start(self):
        with ExitStack() as started:

            def make(function, warm_up=nothing, num_workers=1, timeout=20):
                workers = Workers(function, warm_up, num_workers, timeout)
                started.callback(workers.stop)
                return workers

            yield make

    def test_workers_serve_threads_and_copies_and_restart(self, reward):
        results = []
        thread = threading.Thread(target=lambda: results.append(reward([r"\boxed{34}", TOWER], ["34"] * 2)))
        thread.start()
        thread.join()
        assert results == [[1.0, -1.0]]
        copy = pickle.loads(pickle.dumps(reward))
        assert copy([r"\boxed{34}"], ["34"]) == [1.0]
        copy._workers.stop()
        assert copy([r"\boxed{34}"], ["34"]) == [1.0]

    def test_a_killed_worker_costs_its_job_only(self, start):
        first, killed, last = start(kill_or_return).map([("return",), ("kill",), ("return",)])
        assert first == last == "return" and isinstance(killed, Exception)

    def test_waiting_beyond_the_deadline_is_allowed(self, start):
        workers = start(jobs.wait, num_workers=2, timeout=0.2)
        assert workers.map([(1.0,)] * 3) == ["waited"] * 3

    def test_cpu_limits_hold_within_one_operation(self, start):
        (result,) = start(jobs.burn, timeout=0.2).map([()])
        assert result.exitcode == -signal.SIGPROF

    def test_sleeping_jobs_are_killed_by_wall_clock(self, start):
        workers = start(jobs.stop, timeout=0.2)
        assert workers.wall_limit == 60
        workers.wall_limit = 1.0
        (result,) = workers.map([()])
        assert isinstance(result, TimeoutError)

    def test_failures_beside_others_are_retried_alone(self, start, tmp_path):
        workers = start(jobs.burn_in_company, num_workers=2, timeout=0.5)
        assert workers.map([(str(tmp_path), "1", "2"), (str(tmp_path), "2", "1")]) == ["alone", "alone"]

    def test_second_tries_have_an_end(self, start, tmp_path, monkeypatch):
        monkeypatch.setattr("steer_trl.rewards.workers.SECOND_TRIES", 1)
        workers = start(jobs.burn_at_first, timeout=0.5)
        first, second = workers.map([(str(tmp_path), "1"), (str(tmp_path), "2")])
        assert first == "done" and second.exitcode == -signal.SIGPROF

    @pytest.mark.parametrize(("ranks", "too_much"), [("1", 8 * 2**30), ("100000", 2**30)])
    def test_ranks_of_a_machine_share_the_memory(self, start, monkeypatch, ranks, too_much):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
        assert start(take_memory).map([(2**20,), (too_much,)]) == ["taken", "refused"]

    def test_kept_memory_is_returned_before_the_next(self, start):
        workers = start(keep)
        assert [workers.map([(size,)]) for size in (2**20, 2**28, 2**20, 2**20)] == [[1], [2], [1], [2]]

    def test_workers_that_cannot_work_are_no_wrong_answers(self, start):
        workers = start(kill_or_return, fail)
        with pytest.raises(RuntimeError, match=r"worker process.* do not stay alive"):
            workers.map([("return",)])

    def test_workers_rerun_no_script_and_load_no_torch(self, tmp_path):
        script = tmp_path / "unguarded.py"  # as people write them: without `if __name__ == "__main__"`
        script.write_text(
            "import sys\nfrom steer_trl.rewards import MathReward\nprint('run')\n"
            "print(MathReward()([r'\\boxed{1}'], ['1']), 'torch' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stdout.split("\n") == ["run", "[1.0] False", ""]
