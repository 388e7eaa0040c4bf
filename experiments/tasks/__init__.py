"""More tasks to compare methods on, each with several correct answers; `pip install reasoning_gym` for two of them.

puzzles.py         what the two puzzles share: splits, a small model and its supervised start
graph_color.py     colour a graph so that neighbours differ (a generator of reasoning_gym)
shortest_path.py   a shortest path through a grid (a generator of reasoning_gym)
"""
