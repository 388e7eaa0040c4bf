"""The laptop task of this package. The first protocol's version, with numbers up to 12, was called `countdown`."""

from experiments.lab.task import Task
from steer_trl.demo.puzzle import problems

COUNTDOWN = Task(
    name="countdown20",
    problems=problems,
    judge="steer_trl.demo.puzzle.countdown_reward",
    recipe="countdown",
    start="steer_trl.demo.start_model",
    start_steps=825,
)
