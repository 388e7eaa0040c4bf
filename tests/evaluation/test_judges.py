"""Any reward function is a judge."""

from steer_trl.countdown.task import countdown_reward, problems, solutions
from steer_trl.evaluation import RewardJudge


class TestJudges:
    def test_a_reward_function_judges_texts_as_it_rewards_them(self):
        prompts = [row["prompt"] for row in problems("test")[:4]]
        texts = [solutions(prompts[0])[0], "1+1=3", solutions(prompts[2])[1], ""]
        verdicts = RewardJudge(countdown_reward)(
            texts, [{"prompt": prompt, "id": str(i)} for i, prompt in enumerate(prompts)]
        )
        assert [verdict.correct for verdict in verdicts] == [True, False, True, False]
        assert [verdict.answer for verdict in verdicts] == texts

    def test_it_is_given_messages_where_the_prompt_has_some_and_every_column(self):
        seen = {}

        def reward(prompts, completions, difficulty, **_):
            seen.update(prompts=prompts, completions=completions, difficulty=difficulty)
            return [None, 0.5]

        rows = [{"prompt": [{"role": "user", "content": "a"}], "difficulty": n} for n in (1, 2)]
        verdicts = RewardJudge(reward, threshold=0.4)(["x", "y"], rows)
        assert [verdict.correct for verdict in verdicts] == [False, True]
        assert seen["completions"] == [[{"role": "assistant", "content": text}] for text in "xy"]
        assert seen["difficulty"] == [1, 2] and seen["prompts"] == [row["prompt"] for row in rows]
