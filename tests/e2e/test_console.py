"""The console in a real browser: log in, look, pause; nothing needs scripts."""

import asyncio
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from e2e.conftest import KEY, Api
from support.services import program

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


def visit(url: str, name: str, folder: Path) -> list[str]:
    """Log in, read the listing, pause the schedule; the texts of the pages."""
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=program("chromium", "chromium-browser"), args=FLAGS)
        page = browser.new_page(java_script_enabled=False)
        page.goto(f"{url}/console")
        page.fill("input[name=key]", KEY)
        page.click("button")
        texts = [_text(page)]
        page.click(f"text={name}")
        texts.append(_text(page))
        page.screenshot(path=str(folder / "schedule.png"))
        page.click("text=Pause")
        page.wait_for_load_state()
        texts.append(_text(page))
        browser.close()
    return texts


def _text(page: Page) -> str:
    page.wait_for_load_state()
    return page.inner_text("body")


@pytest.mark.needs_browser
async def test_an_operator_logs_in_finds_a_schedule_and_pauses_it(api: Api, tmp_path: Path) -> None:
    name = "weekly <img src=x onerror=alert(1)>"
    made = await api.create(name=name, timing={"cron": "0 9 * * MON"}, target={"http": {"url": "http://127.0.0.1:9/"}})
    listing, detail, paused = await asyncio.to_thread(visit, api.url, "weekly", tmp_path)
    assert name in listing
    assert made["id"] in detail
    assert "paused" in paused.lower()
    status, found = await api.call("GET", f"/v1/schedules/{made['id']}")
    assert (status, found["state"]) == (200, "paused")
