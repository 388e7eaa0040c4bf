"""More tasks to compare methods on, each with several correct answers; four need `pip install reasoning_gym`.

palindrome.py           ten letters into a palindrome (a generator of reasoning_gym)
ordered_palindrome.py   a second task for the models of the first
shortest_path.py        a shortest path through a grid (a generator of reasoning_gym)
words.py                a word with three first letters, for a pretrained language model (a list of reasoning_gym)
puzzles.py              what these share: splits, a model and its supervised start
smollm.py               SmolLM2-135M-Instruct from a package, where no Hub can be reached
shuffled.py             a control: STARE's weights, dealt to other tokens
"""
