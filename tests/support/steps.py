"""A matcher of regular expressions that counts its steps, so that tests can see how the work grows without timing it.

It tries what Python's `re` tries, in the same order, but without `re`'s shortcuts, so its count is an upper bound of
`re`'s work up to a constant factor. A step is one comparison of a pattern's item with a place in the text.
"""

import re
from functools import cache
from re import _constants as sre
from re import _parser

CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
COMPOSED = (*REPEATS, sre.BRANCH, sre.SUBPATTERN, sre.GROUPREF, sre.ATOMIC_GROUP)


@cache
def _is_of_category(category, letter):
    return re.fullmatch(CATEGORIES[category], letter) is not None


class Counter:
    """Matches one pattern and counts the steps in `steps`."""

    def __init__(self, pattern):
        self.tree = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE.value)
        self.flags = pattern.flags
        self.steps = 0
        self.text = ""
        self.groups = {}

    def scan(self, text):
        """Find every match, as `sub`, `split` and `finditer` do, and return the spans."""
        self.text = text
        spans, start = [], 0
        while start <= len(text):
            end = self._first(list(self.tree), start)
            if end is not None:
                spans.append((start, end))
            start = end if end is not None and end > start else start + 1
        return spans

    def full(self, text):
        """Return whether the whole text matches."""
        self.text = text
        return self._first(list(self.tree), 0, lambda end: end if end == len(text) else None) is not None

    def _first(self, items, start, then=lambda end: end):
        return self._match(items, 0, start, then)

    def _match(self, items, index, at, then):
        """Match the items from `index` on at a place, and return what `then` returns for the first end it accepts."""
        if index == len(items):
            return then(at)
        kind, value = items[index]
        self.steps += 1

        def rest(end):
            return self._match(items, index + 1, end, then)

        if kind in REPEATS:
            return self._repeat(kind, *value, at, rest)
        if kind is sre.BRANCH:
            for branch in value[1]:
                found = self._match(list(branch), 0, at, rest)
                if found is not None:
                    return found
            return None
        if kind is sre.SUBPATTERN:
            return self._group(value, at, rest)
        if kind is sre.ATOMIC_GROUP:
            end = self._first(list(value), at)
            return None if end is None else rest(end)
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return rest(at) if self._looks(*value, at) is (kind is sre.ASSERT) else None
        if kind is sre.AT:
            return rest(at) if self._is_place(value, at) else None
        if kind is sre.GROUPREF:
            span = self.groups.get(value)
            part = None if span is None else self.text[slice(*span)]
            return rest(at + len(part)) if part is not None and self.text.startswith(part, at) else None
        return rest(at + 1) if at < len(self.text) and self._is_letter(kind, value, self.text[at]) else None

    def _group(self, value, at, rest):
        number, _, _, items = value

        def closed(end):
            before = self.groups.get(number)
            self.groups[number] = (at, end)
            found = rest(end)
            if found is None:
                self.groups[number] = before
            return found

        return self._match(list(items), 0, at, closed)

    def _repeat(self, kind, least, most, items, at, rest):
        items = list(items)
        if kind is sre.POSSESSIVE_REPEAT:
            count = 0
            while count < most:
                end = self._first(items, at)
                if end is None or (end == at and count >= least):
                    break
                at, count = end, count + 1
            return rest(at) if count >= least else None
        if len(items) == 1 and items[0][0] not in COMPOSED:
            return self._repeat_letter(kind, least, most, items, at, rest)

        def again(count, place):
            def more():
                if count >= most:
                    return None
                return self._first(items, place, lambda end: again(count + 1, end) if end > place else None)

            if count < least:
                return self._first(items, place, lambda end: again(count + 1, end))
            if kind is sre.MAX_REPEAT:
                found = more()
                return rest(place) if found is None else found
            found = rest(place)
            return more() if found is None else found

        return again(0, at)

    def _repeat_letter(self, kind, least, most, items, at, rest):
        """Repeat an item of one character without recursion."""
        ends = [at]
        if kind is sre.MAX_REPEAT:
            while len(ends) <= most and (end := self._first(items, ends[-1])) is not None:
                ends.append(end)
            for end in reversed(ends[least:]):
                found = rest(end)
                if found is not None:
                    return found
            return None
        while True:
            if len(ends) > least and (found := rest(ends[-1])) is not None:
                return found
            if len(ends) > most or (end := self._first(items, ends[-1])) is None:
                return None
            ends.append(end)

    def _looks(self, direction, items, at):
        items = list(items)
        if direction > 0:
            return self._first(items, at) is not None
        low, high = items_width(items)
        for width in range(low, high + 1):
            if width <= at and self._first(items, at - width, lambda end: end if end == at else None) is not None:
                return True
        return False

    def _is_place(self, value, at):
        if value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return at == 0
        if value is sre.AT_END:
            return at == len(self.text) or (at == len(self.text) - 1 and self.text[at] == "\n")
        if value is sre.AT_END_STRING:
            return at == len(self.text)
        sides = [
            0 <= place < len(self.text) and _is_of_category(sre.CATEGORY_WORD, self.text[place])
            for place in (at - 1, at)
        ]
        return (sides[0] != sides[1]) is (value is sre.AT_BOUNDARY)

    def _is_letter(self, kind, value, letter):
        letters = {letter, letter.lower(), letter.upper()} if self.flags & re.IGNORECASE else {letter}
        if kind is sre.ANY:
            return letter != "\n" or bool(self.flags & re.DOTALL)
        if kind is sre.LITERAL:
            return any(ord(one) == value for one in letters if len(one) == 1)
        if kind is sre.NOT_LITERAL:
            return all(ord(one) != value for one in letters if len(one) == 1)
        is_negated = value[0][0] is sre.NEGATE
        return any(self._is_in(item, one) for item in value for one in letters if len(one) == 1) is not is_negated

    @staticmethod
    def _is_in(item, letter):
        kind, value = item
        if kind is sre.LITERAL:
            return ord(letter) == value
        if kind is sre.RANGE:
            return value[0] <= ord(letter) <= value[1]
        return kind is sre.CATEGORY and _is_of_category(value, letter)


def items_width(items):
    """Return the least and the greatest width of what a look-behind matches."""
    widths = [_parser.SubPattern(_parser.State(), [item]).getwidth() for item in items]
    return sum(low for low, _ in widths), sum(high for _, high in widths)


def count_steps(pattern, text, is_full=False):
    """Return the steps of one pass of a compiled pattern over a text."""
    counter = Counter(pattern)
    (counter.full if is_full else counter.scan)(text)
    return counter.steps
