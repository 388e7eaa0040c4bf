"""A published model under three settings of the trainer, on one GPU.

recipe.yaml   the settings that all runs share; tiny.yaml has those of a trial on a CPU
plan.py       the settings that are compared, the seeds, and the model and problems
tiny.py       model and problems of the trial
program.py    steer-trl in a process that ends with the experiment
results.py    the one file of all runs, and the table, which is made from this file alone
"""
