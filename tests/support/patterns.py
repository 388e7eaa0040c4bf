"""The regular expressions in the source of a module, how each is used, and texts that make a pattern work hard."""

import ast
import inspect
import random
import re
from re import _constants as sre
from re import _parser

WHOLE = {"fullmatch", "match"}
USES = {"search", "sub", "split", "findall", "finditer", *WHOLE}
SAMPLES = {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: "a"}
SAMPLES |= {sre.CATEGORY_NOT_DIGIT: "a", sre.CATEGORY_NOT_SPACE: "a", sre.CATEGORY_NOT_WORD: "-"}


def find_patterns(module):
    """Return the compiled patterns of a module and of its functions, each with whether it must match a whole text."""
    found = {value.pattern: (value, False) for value in vars(module).values() if isinstance(value, re.Pattern)}
    tree = ast.parse(inspect.getsource(module))
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        owner, use = call.func.value, call.func.attr
        if isinstance(owner, ast.Name) and owner.id == "re" and use in USES | {"compile"} and call.args:
            pattern = _compile(call, module)
            if pattern is not None:
                found.setdefault(pattern.pattern, (pattern, use in WHOLE))
        elif isinstance(owner, ast.Name) and use in WHOLE and isinstance(vars(module).get(owner.id), re.Pattern):
            pattern = vars(module)[owner.id]
            found[pattern.pattern] = (pattern, True)
    return list(found.values())


def _compile(call, module):
    """Compile the pattern of a call, or return `None` if it is made of local names."""
    text, *others = [_evaluate(node, module) for node in [*call.args, *(key.value for key in call.keywords)]]
    flags = [value for value in others if isinstance(value, re.RegexFlag)]
    return re.compile(text, *flags) if isinstance(text, str) else None


def _evaluate(node, module):
    """Return the value of an expression, or `None` if it needs local names."""
    try:
        return eval(compile(ast.Expression(node), "argument", "eval"), vars(module) | {"separator": ",|;"})
    except (NameError, TypeError, AttributeError):
        return None


def write_examples(pattern, dice, count):
    """Return texts that the pattern would match, if look-arounds are ignored."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE.value)
    return [_write(list(tree), dice, {}) for _ in range(count)]


def _write(items, dice, groups):
    text = ""
    for kind, value in items:
        if kind is sre.LITERAL:
            text += chr(value)
        elif kind in (sre.ANY, sre.NOT_LITERAL):
            text += "a" if value != ord("a") else "b"
        elif kind is sre.IN:
            text += _write_letter(value, dice)
        elif kind is sre.BRANCH:
            text += _write(list(dice.choice(value[1])), dice, groups)
        elif kind is sre.SUBPATTERN:
            groups[value[0]] = _write(list(value[3]), dice, groups)
            text += groups[value[0]]
        elif kind is sre.ATOMIC_GROUP:
            text += _write(list(value), dice, groups)
        elif kind is sre.GROUPREF:
            text += groups.get(value, "")
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, part = value
            for _ in range(dice.randint(least, min(most, least + 2))):
                text += _write(list(part), dice, groups)
    return text


def _write_letter(items, dice):
    if items[0][0] is sre.NEGATE:
        taken = re.compile(_describe(items))
        return next(filter(taken.match, "a7 -x{\\~,(\n"), "a")
    kind, value = dice.choice(items)
    return chr(value) if kind is sre.LITERAL else chr(value[0]) if kind is sre.RANGE else SAMPLES[value]


def _describe(items):
    parts = []
    for kind, value in items:
        if kind is sre.LITERAL:
            parts.append(re.escape(chr(value)))
        elif kind is sre.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        elif kind is sre.CATEGORY:
            parts.append(CLASSES[value])
    return f"[^{''.join(parts)}]"


CLASSES = {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_WORD: r"\w"}
CLASSES |= {sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_NOT_WORD: r"\W"}


def write_hard_texts(pattern, lengths, seed=0, examples=4):
    """Return texts of about these numbers of characters: repeats of what the pattern looks for, and of its beginnings.

    Each entry has the same text at every length.
    """
    dice = random.Random(seed)
    written = write_examples(pattern, dice, examples)
    start = written[0][:-1]
    units = [*"a7 ~{\\$\n"]
    for text in written:
        units += [text, text[:-1], text[: len(text) // 2], text[-1:], text[:1]]
    found = []
    for unit in dict.fromkeys(filter(None, units)):
        repeated = [unit * max(1, length // len(unit)) for length in lengths]
        found += [repeated, [start + text for text in repeated], [text + "\x00" for text in repeated]]
    return found
