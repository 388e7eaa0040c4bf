"""Prints how densely the code is written, with a row for each subfolder: `python tools/figures.py [FOLDER]`.

tokens       Python tokens of code, without comments, docstrings and layout
a line       the mean number of these tokens over the lines that have any
tuples       assignments of a tuple to a tuple, for each 1,000 code lines
comments     comments on a line of their own, for each 1,000 code lines
long         share of docstrings whose first line has at least 112 characters
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(path: Path) -> Counter[str]:
    """Count the tokens, lines, tuples, comments and docstrings of one file."""
    text = path.read_text()
    lines = text.splitlines()
    nodes = list(ast.walk(ast.parse(text)))
    texts = [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    starts = {(node.lineno, node.col_offset) for node in texts}
    found: Counter[str] = Counter()
    code_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found["comments"] += token.line.lstrip().startswith("#")
        if token.type in LAYOUT or token.start in starts:
            continue
        found["tokens"] += 1
        code_lines.update(range(token.start[0], token.end[0] + 1))
    found["lines"] = len(code_lines)
    for node in nodes:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Tuple)
            and isinstance(node.targets[0], ast.Tuple)
        ):
            found["tuples"] += 1
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            found["docstrings"] += 1
            found["long"] += len(lines[node.body[0].lineno - 1]) >= 112
    return found


def row(room: str, found: Counter[str]) -> str:
    """Return the table's row for one subfolder."""
    lines = max(found["lines"], 1)
    return (
        f"{room:22}{found['tokens']:8}{found['lines']:8}{found['tokens'] / lines:9.1f}"
        f"{1000 * found['tuples'] / lines:9.1f}{1000 * found['comments'] / lines:10.1f}"
        f"{found['long'] / max(found['docstrings'], 1):8.0%}"
    )


def main() -> None:
    """Print the table of a folder."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "steer_trl")
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(root.rglob("*.py")):
        rooms.setdefault(path.parent.relative_to(root).as_posix(), Counter()).update(count(path))
    print(f"{'':22}{'tokens':>8}{'lines':>8}{'a line':>9}{'tuples':>9}{'comments':>10}{'long':>8}")
    for room, found in rooms.items():
        print(row(room, found))
    print(row("all", sum(rooms.values(), Counter())))


if __name__ == "__main__":
    main()
