"""Why a push to the Hub failed, in one line, and what to do about it."""

import httpx
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError


class PushError(RuntimeError):
    """A push to the Hub that did not arrive. Its text says where everything still is, and how to push it."""


def chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, outermost first; the Hub's own answer needs no further cause."""
    causes = [error]
    while not isinstance(causes[-1], HfHubHTTPError) and causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    return causes


def reason(error: BaseException) -> str:
    """One line: what the outermost and the innermost error say."""
    causes = chain(error)
    texts = [" ".join(str(cause).split()).rstrip(".") or type(cause).__name__ for cause in (causes[0], causes[-1])]
    return ": ".join(dict.fromkeys(texts))


def remedy(error: BaseException) -> str:
    """What to do about it, as the beginning of a sentence."""
    for cause in chain(error):
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if status in (401, 403) or isinstance(cause, LocalTokenNotFoundError):
            return "Log in with a token that may write there (hf auth login), or correct hub_model_id"
        if status == 404:
            return "Correct hub_model_id, or log in with a token that may see it (hf auth login)"
        if isinstance(cause, (httpx.TransportError, ConnectionError)) or (status or 0) >= 500:
            return "Wait until the server answers (HF_ENDPOINT says which it is, HF_HUB_OFFLINE whether it is asked)"
    return "Correct what is refused"
