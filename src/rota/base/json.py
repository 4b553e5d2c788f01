"""JSON at the edges of the store: strict in what we write ourselves, unbreakable for what others raise or return."""

import math
from typing import Any

import orjson


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError."""
    return orjson.loads(text)


def dump_json(value: object, *, lossy: bool = False, sort_keys: bool = False) -> str:
    """The JSON text of a value, on one line.

    Strict: TypeError or ValueError for what JSON or PostgreSQL cannot hold (NaN, infinities, NUL, lone surrogates).
    `lossy=True` never raises: such parts are replaced, unknown types become their text, depth is bounded.
    """
    options = orjson.OPT_SORT_KEYS if sort_keys else 0
    if lossy:
        return orjson.dumps(_tamed(value, 64), option=options).decode()
    text = orjson.dumps(value, option=options).decode()
    if "\\u0000" in text:
        raise ValueError("a text holds a NUL character, which PostgreSQL cannot store")
    if "null" in text and _has_nan(value):
        raise ValueError("NaN and infinities are not JSON")
    return text


def clean_text(text: str, *, limit: int | None = None) -> str:
    """A text that PostgreSQL can store: NUL and lone surrogates replaced, cut to `limit` characters."""
    if limit is not None and len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _has_nan(value: object) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(_has_nan(item) for item in value.values())
        case list() | tuple():
            return any(_has_nan(item) for item in value)
        case _:
            return False


def _tamed(value: object, depth: int) -> object:
    if depth == 0:
        return "…"
    match value:
        case None | bool():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)[:100]
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(str(key)): _tamed(item, depth - 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_tamed(item, depth - 1) for item in value]
        case bytes():
            return clean_text(value.decode("utf-8", "replace"))
        case _:
            return _text_of(value)


def _text_of(value: object) -> str:
    try:
        return clean_text(str(value))
    except Exception:  # noqa: BLE001 - whatever a foreign __str__ raises
        return f"<{type(value).__name__}>"
