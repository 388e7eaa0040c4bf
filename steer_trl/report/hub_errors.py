"""Recognises errors of the Hub's client. Several are no `OSError`, for example on a machine without network."""

HUB_PACKAGES = {"huggingface_hub", "httpx", "httpx2", "httpcore", "requests"}
"""Packages whose errors a call to the Hub may raise. huggingface_hub 1 uses httpx, huggingface_hub 2 uses httpx2."""


def is_from_hub(error: BaseException | None) -> bool:
    """Return whether an error, or the error that caused it, is of the Hub's client."""
    return error is not None and (
        type(error).__module__.partition(".")[0] in HUB_PACKAGES or is_from_hub(error.__cause__)
    )
