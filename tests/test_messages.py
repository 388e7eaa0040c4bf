"""The wording of messages is that of `tests/messages.txt`."""

import pytest
from support import messages


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("title", messages.SECTIONS)
def test_messages_are_those_that_were_reviewed(title):
    assert messages.section(title).rstrip().splitlines() == messages.read()[title].rstrip().splitlines(), (
        "make messages"
    )
