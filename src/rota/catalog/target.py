"""What an occurrence does, as its owner wrote it: call an URL, run a handler, or send a message to a subject."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import SplitResult, urlsplit

from rota.base.errors import ValidationFailed
from rota.calendar import format_duration
from rota.catalog.fields import MASK, Fields
from rota.catalog.secrets import is_secret_name, mask_url, restore_url

DEFAULT_QUEUE = "default"
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_BODIES = ("payload", "envelope")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_SUBJECT = re.compile(r"[^\s.*>$\x00-\x20][^\s.*>\x00-\x20]*(\.[^\s.*>\x00-\x20]+)*")
_REFUSED_HEADERS = {
    **dict.fromkeys(
        ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
         "transfer-encoding", "upgrade", "expect", "content-length", "host"),
        "belongs to the connection and cannot be chosen",
    ),
    **dict.fromkeys(
        ("idempotency-key", "traceparent", "tracestate", "webhook-id", "webhook-timestamp", "webhook-signature"),
        "is set by rota on each call",
    ),
}  # fmt: skip
_MOST_HEADERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """An HTTP call. The timeout is the total time of a call, connecting included."""

    url: str = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: timedelta = timedelta(seconds=30)
    body: str = "payload"
    key: str = ""

    @property
    def target_key(self) -> str:
        """What limits and breakers know this target by: http:HOST:PORT."""
        return self.key

    @property
    def queue(self) -> str:
        """HTTP calls wait in the default queue."""
        return DEFAULT_QUEUE

    def document(self) -> dict[str, object]:
        """The JSON form, secrets included: for the store, or through mask_target for a reader."""
        http: dict[str, object] = {"url": self.url, "method": self.method, "headers": self.headers}
        http["timeout"] = format_duration(self.timeout)
        if self.body != "payload":
            http["body"] = self.body
        return {"http": http}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTarget:
    """A function that workers registered under a name; it waits in a queue of its own choice."""

    name: str
    queue: str = DEFAULT_QUEUE

    @property
    def target_key(self) -> str:
        """What limits and breakers know this target by, and workers claim by: handler:NAME."""
        return f"handler:{self.name}"

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {"handler": {"name": self.name, "queue": self.queue}}


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsTarget:
    """A message to a broker subject."""

    subject: str

    @property
    def target_key(self) -> str:
        """All subjects share one broker."""
        return "nats"

    @property
    def queue(self) -> str:
        """Messages wait in the default queue."""
        return DEFAULT_QUEUE

    def document(self) -> dict[str, object]:
        """The JSON form."""
        return {"nats": {"subject": self.subject}}


TargetSpec = HttpTarget | HandlerTarget | NatsTarget


def parse_target(value: object, stored: TargetSpec | None = None) -> TargetSpec:
    """The target that a JSON object describes; a mask in it stands for the secret of the stored one.

    Raises ValidationFailed with all faults, their paths beginning with "target".
    """
    fields = Fields()
    target = read_target(fields, value, stored)
    fields.raise_if_any()
    if target is None:
        raise ValidationFailed(tuple(fields.errors))
    return target


def read_target(fields: Fields, value: object, stored: TargetSpec | None) -> TargetSpec | None:
    """As parse_target, but faults are added to fields."""
    kinds = ("handler", "http", "nats")
    document = fields.members("target", value, kinds)
    if document is None:
        return None
    present = [kind for kind in kinds if document.get(kind) is not None]
    if len(present) != 1:
        fields.add(
            "target", "must have exactly one of http, handler, nats", hint='for example {"http": {"url": "https://…"}}'
        )
        return None
    match present[0]:
        case "http":
            return _read_http(fields, document["http"], stored if isinstance(stored, HttpTarget) else None)
        case "handler":
            return _read_handler(fields, document["handler"])
        case _:
            return _read_nats(fields, document["nats"])


def mask_target(document: Mapping[str, object]) -> dict[str, object]:
    """A stored target's JSON with the mask in place of what looks like a secret, whatever else is in it."""
    masked = dict(document)
    http = masked.get("http")
    if isinstance(http, Mapping):
        shown = dict(http)
        if isinstance(url := shown.get("url"), str):
            shown["url"] = mask_url(url)
        if isinstance(headers := shown.get("headers"), Mapping):
            shown["headers"] = {name: MASK if is_secret_name(name) else value for name, value in headers.items()}
        masked["http"] = shown
    return masked


def _read_http(fields: Fields, value: object, stored: HttpTarget | None) -> HttpTarget | None:
    before = len(fields.errors)
    document = fields.members("target.http", value, ("url", "method", "headers", "timeout", "body"))
    if document is None:
        return None
    url, key = _read_url(fields, document.get("url"), stored)
    method = document.get("method")
    method = "POST" if method is None else method.upper() if isinstance(method, str) else method
    fields.choice("target.http.method", method, _METHODS)
    headers = _read_headers(fields, document.get("headers"), stored)
    timeout = document.get("timeout")
    length = fields.duration(
        "target.http.timeout", "30s" if timeout is None else timeout, timedelta(milliseconds=100), timedelta(hours=1)
    )
    body = document.get("body")
    chosen = fields.choice("target.http.body", "payload" if body is None else body, _BODIES)
    if len(fields.errors) > before or url is None or length is None or chosen is None:
        return None
    return HttpTarget(url=url, method=str(method), headers=headers, timeout=length, body=chosen, key=key)


def _read_url(fields: Fields, value: object, stored: HttpTarget | None) -> tuple[str | None, str]:
    path = "target.http.url"
    if not isinstance(value, str):
        fields.add(path, "must be an http or https URL", hint="for example https://example.com/hook")
        return None, ""
    text = fields.text(path, value, 4096)
    if text is None:
        return None, ""
    if MASK in text:
        text = restore_url(text, stored.url if stored else "")
        if MASK in text:
            fields.add(path, f"holds the mask {MASK} for which nothing is stored", hint="send the value itself")
            return None, ""
    fault, hint, key = "", "", ""
    try:
        parts = urlsplit(text)
        fault, hint = _url_fault(text, parts)
        key = "" if fault else _host_key(parts)
    except (ValueError, UnicodeError) as reason:
        fault = f"is not an URL: {reason}"
    if fault or not key:
        fields.add(path, fault or "has no usable host name", hint=hint)
        return None, ""
    return text, key


def _url_fault(text: str, parts: SplitResult) -> tuple[str, str]:
    if parts.scheme not in {"http", "https"}:
        return "must begin with http:// or https://", "for example https://example.com/hook"
    if "@" in parts.netloc:
        return "must not hold a user name or password", "send them in an Authorization header"
    if any(character.isspace() for character in text) or "\\" in text:
        return "must not hold spaces or backslashes", "write a space as %20"
    if "#" in text:
        return "must not hold a fragment", "leave out # and what follows: it is never sent"
    if parts.port == 0:
        return "must not have port 0", ""
    return "", ""


def _host_key(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if ":" not in host:
        if len(host) > 253:
            return ""
        host = host if host.isascii() else host.encode("idna").decode("ascii")
        if len(host) > 253 or not _HOST.fullmatch(host):
            return ""
    return f"http:{host.rstrip('.')}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _read_headers(fields: Fields, value: object, stored: HttpTarget | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if value is None:
        return headers
    if not isinstance(value, Mapping) or len(value) > _MOST_HEADERS:
        fields.add("target.http.headers", f"must be an object of at most {_MOST_HEADERS} texts")
        return headers
    kept = {name.lower(): text for name, text in stored.headers.items()} if stored else {}
    seen: set[str] = set()
    for name, text in value.items():
        path = f"target.http.headers.{name}"
        lower = str(name).lower()
        if not isinstance(name, str) or len(name) > 128 or not _HEADER_NAME.fullmatch(name):
            fields.add("target.http.headers", "has a name that is not a header name", name)
        elif lower in seen:
            fields.add(path, "is given twice, in different letter case")
        elif fault := _REFUSED_HEADERS.get(lower) or ("is set by rota" if lower.startswith("rota-") else ""):
            fields.add(path, fault, hint="leave it out")
        elif text == MASK:
            if lower in kept:
                headers[name] = kept[lower]
            else:
                fields.add(path, f"is the mask {MASK}, and no value is stored for it", hint="send the value itself")
        elif not isinstance(text, str) or len(text) > 8192 or not _HEADER_VALUE.fullmatch(text):
            fields.add(
                path, "must be a text of at most 8192 characters in one line", hint="no CR, LF or NUL; Latin-1 only"
            )
        else:
            headers[name] = text.strip()
        seen.add(lower)
    return headers


def _read_handler(fields: Fields, value: object) -> HandlerTarget | None:
    document = fields.members("target.handler", value, ("name", "queue"))
    if document is None:
        return None
    name = _read_name(fields, "target.handler.name", document.get("name"))
    queue = document.get("queue")
    waits_in = _read_name(fields, "target.handler.queue", DEFAULT_QUEUE if queue is None else queue)
    return HandlerTarget(name=name, queue=waits_in) if name and waits_in else None


def _read_nats(fields: Fields, value: object) -> NatsTarget | None:
    document = fields.members("target.nats", value, ("subject",))
    if document is None:
        return None
    subject = fields.text("target.nats.subject", document.get("subject"), 255)
    if subject is not None and not _SUBJECT.fullmatch(subject):
        fields.add("target.nats.subject", "must be words with dots between, without wildcards", subject)
        return None
    return None if subject is None else NatsTarget(subject=subject)


def _read_name(fields: Fields, path: str, value: object) -> str | None:
    name = fields.text(path, value, 200)
    if name is not None and not _NAME.fullmatch(name):
        fields.add(path, "must be letters, digits and _ . : / - only", name)
        return None
    return name
