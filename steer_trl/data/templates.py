"""Splits prompts that already contain a chat template, as in SimpleRL-Zoo's files, into messages."""

import re

ROLE = r"(?P<role>system|user|assistant)"
HEADERS = (
    rf"<\|im_start\|>{ROLE}(?:\n|<\|im_sep\|>)",  # Qwen, ChatML, Phi-4
    rf"<\|start\|>{ROLE}(?:<\|message\|>|$)",  # gpt-oss
    rf"<\|start_header_id\|>{ROLE}<\|end_header_id\|>\n*",  # Llama 3
    rf"<\|{ROLE}\|>\n?",  # Phi, Zephyr, GLM
    r"<\uff5c(?P<role>User|Assistant)\uff5c>",  # DeepSeek
    r"<start_of_turn>(?P<role>user|model)\n",  # Gemma
    r"(?P<role>\[INST\])",  # Mistral
)
ENDS = re.compile(
    r"<\|(?:im_end|eot_id|end|endoftext|begin_of_text)\|>|<\uff5c(?:begin|end)\u2581of\u2581sentence\uff5c>|<end_of_turn>|<bos>|\[/INST\]|</?s>"
)


def read_template(text: str) -> str | list[dict[str, str]]:
    """Return the messages of a text in a common chat template. Any other text is returned unchanged.

    An empty assistant turn at the end, which the model would continue, is left out.
    """
    for header in HEADERS:
        marks = list(re.finditer(header, text))
        if not marks:
            continue
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        messages = [
            {"role": _role(mark["role"]), "content": ENDS.sub("", text[mark.end() : end]).strip()}
            for mark, end in zip(marks, ends, strict=True)
        ]
        if before := ENDS.sub("", text[: marks[0].start()]).strip():
            messages.insert(0, {"role": "system", "content": before})
        while messages and messages[-1]["role"] == "assistant" and messages[-1]["content"] in ("", "<think>"):
            messages.pop()
        return messages
    return text


def _role(name: str) -> str:
    return {"[INST]": "user", "model": "assistant"}.get(name, name.lower())
