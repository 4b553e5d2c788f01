"""Targets: what is refused, and how their secrets are hidden and kept."""

from typing import Any

import pytest

from rota.base.errors import FieldError, ValidationFailed
from rota.catalog.definition import Definition
from rota.catalog.target import HttpTarget, mask_target, parse_target


def http(**members: object) -> dict[str, Any]:
    return {"http": {"url": "https://example.com/hook"} | members}


def faults(document: object) -> dict[str, FieldError]:
    with pytest.raises(ValidationFailed) as refused:
        parse_target(document)
    return {error.field: error for error in refused.value.errors}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://example.com/hook", "http:example.com:443"),
        ("http://example.com", "http:example.com:80"),
        ("HTTPS://EXAMPLE.com:8443/x?y=z", "http:example.com:8443"),
        ("http://127.0.0.1:8080/", "http:127.0.0.1:8080"),
        ("http://[::1]:9/x", "http:::1:9"),
        ("https://bücher.example/ä", "http:xn--bcher-kva.example:443"),
        ("http://my_service:80", "http:my_service:80"),
        ("https://example.com./", "http:example.com:443"),
    ],
)
def test_an_url_gives_the_key_that_limits_know_it_by(url: str, key: str):
    assert parse_target({"http": {"url": url}}).target_key == key


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "http://", "http:///x",
        "https://user:pass@example.com/", "https://user@example.com/", "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com:99999/", "https://example.com:0/", "https://example.com/\r\nHost: x", "http://[::1",
        "https://example.com/\0", "https://exam%70le.com/", "https://-a.com", "https://a..b/",
        "https://example.com/#x",
        "https://example.com\\@evil.com/", "http://" + "a" * 5000, None, 5, "https://\ud800.com/", "https://[x]/",
    ],
)  # fmt: skip
def test_what_is_no_plain_http_url_is_refused(url: object):
    assert "target.http.url" in faults({"http": {"url": url}})


def test_a_password_in_an_url_is_never_said_again():
    refused = faults({"http": {"url": "https://bob:hunter2@example.com/"}})["target.http.url"]
    assert "hunter2" not in f"{refused.message} {refused.value} {refused.hint}"


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nB: c"}, {"X": "a\nb"}, {"X": "a\0"}, {"X Y": "a"}, {"": "a"}, {"X:": "a"}, {"Host": "evil.com"},
        {"Content-Length": "3"}, {"transfer-encoding": "chunked"}, {"Connection": "close"}, {"TE": "x"},
        {"Idempotency-Key": "mine"}, {"Rota-Attempt": "1"}, {"traceparent": "x"}, {"webhook-signature": "x"},
        {"X": 5}, {"X": None}, {"X": "☃"}, {"X": "a" * 9000}, {"a": "1", "A": "2"}, {"X": "***"}, ["X"],
        {f"x-{n}": "" for n in range(65)},
    ],
)  # fmt: skip
def test_headers_that_would_harm_the_call_are_refused(headers: object):
    assert any(path.startswith("target.http.headers") for path in faults(http(headers=headers)))


def test_a_refused_header_value_is_not_said_again():
    refused = faults(http(headers={"Authorization": "Bearer s3cret\n"}))
    assert all("s3cret" not in f"{error.message}{error.value}" for error in refused.values())


def test_ordinary_headers_are_kept_with_their_letter_case():
    target = parse_target(http(headers={"Content-Type": "application/json", "X-Trace": " a "}))
    assert isinstance(target, HttpTarget)
    assert target.headers == {"Content-Type": "application/json", "X-Trace": "a"}


@pytest.mark.parametrize("timeout", ["0s", "2h", "x", True, [], "99999999999999999999h", float("nan")])
def test_timeouts_out_of_bounds_are_refused(timeout: object):
    assert "target.http.timeout" in faults(http(timeout=timeout))


@pytest.mark.parametrize(
    "target",
    [None, {}, {"http": None}, {"http": {"url": "http://a.b"}, "handler": {"name": "x"}}, [], "x", {"handler": {}}],
)
def test_exactly_one_kind_of_target_is_needed(target: object):
    assert faults(target)


@pytest.mark.parametrize("subject", ["", "a b", "a.*", "a.>", ".a", "a.", "a..b", "$SYS.x", "a\nb"])
def test_subjects_that_are_not_one_place_to_send_to_are_refused(subject: str):
    assert "target.nats.subject" in faults({"nats": {"subject": subject}})


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 201, "a;b", 5])
def test_handler_names_that_cannot_be_registered_are_refused(name: object):
    assert "target.handler.name" in faults({"handler": {"name": name}})


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "X-Api-Key",
        "x-auth-token",
        "Cookie",
        "X-Signature",
        "my-secret",
        "X-Password",
        "apikey",
        "X-Key",
    ],
)
def test_headers_that_look_secret_are_masked(name: str):
    masked = mask_target(http(headers={name: "s3cret"}))
    assert masked["http"]["headers"] == {name: "***"}  # type: ignore[index]


def test_secret_query_parameters_and_credentials_are_masked_in_urls():
    shown = mask_target({"http": {"url": "https://example.com/?a=1&token=s3cret&X-Amz-Signature=s3cret&keyword=ok"}})
    assert shown == {"http": {"url": "https://example.com/?a=1&token=***&X-Amz-Signature=***&keyword=ok"}}
    assert mask_target({"http": {"url": "https://u:p@example.com/x"}}) == {"http": {"url": "https://***@example.com/x"}}


def definition(target: dict[str, Any]) -> Definition:
    return Definition.parse({"name": "x", "timing": {"cron": "0 9 * * *"}, "target": target})


def test_what_is_shown_of_a_definition_in_code_holds_no_secret():
    secret = {"Authorization": "Bearer s3cret"}
    read = Definition.parse({"name": "x", "timing": {"cron": "0 9 * * *"}, "payload": {"password": "s3cret"},
                             "target": http(url="https://example.com/?token=s3cret", headers=secret)})  # fmt: skip
    assert "s3cret" not in repr(read)


def test_a_mask_that_comes_back_keeps_the_stored_secret():
    stored = definition(http(url="https://example.com/?token=t0ken&n=1", headers={"Authorization": "Bearer s3cret"}))
    read = stored.document()
    assert "s3cret" not in str(read)
    assert "t0ken" not in str(read)
    replaced = Definition.parse(read | {"name": "renamed"}, stored=stored)
    assert replaced.target == stored.target
    patched = stored.patched({"target": {"http": {"headers": {"authorization": None, "Authorization": "***"}}}})
    assert patched.target == stored.target
    changed = stored.patched({"target": {"http": {"headers": {"Authorization": "Bearer new"}}}})
    assert isinstance(changed.target, HttpTarget)
    assert changed.target.headers == {"Authorization": "Bearer new"}


def test_a_masked_query_parameter_is_not_filled_in_for_another_host():
    stored = definition(http(url="https://example.com/?token=t0ken"))
    with pytest.raises(ValidationFailed, match="mask"):
        stored.patched({"target": {"http": {"url": "https://evil.example/?token=***"}}})
