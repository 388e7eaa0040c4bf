"""The laptop task of this package. The first protocol's version, with numbers up to 12, was called `countdown`."""

from experiments.lab.task import Task
from steer_trl.countdown.model import START_STEPS
from steer_trl.countdown.task import problems

COUNTDOWN = Task(
    name="countdown20",
    problems=problems,
    judge="steer_trl.countdown.task.countdown_reward",
    recipe="countdown",
    start="steer_trl.countdown.model",
    start_steps=START_STEPS,
)
