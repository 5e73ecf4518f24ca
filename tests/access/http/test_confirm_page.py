"""The page of decisions in a real Chromium, as wide as a phone, and with scripts turned off."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.access.http.confirming import Office, office
from tests.conftest import chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.browser

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"width": 360, "height": 760}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "remise": {"type": "number", "title": "Remise (%)", "description": "Entre 0 et 15."},
        "urgent": {"type": "boolean", "title": "Urgent ?"},
    },
    "required": ["remise", "urgent"],
}


@pytest.fixture
async def bureau(tmp_path: Path) -> AsyncIterator[Office]:
    """An office that is open."""
    async with office(tmp_path) as opened:
        yield opened


@pytest.fixture
async def browser() -> "AsyncIterator[Browser]":
    """The Chromium of this machine, without a screen."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield found
        await found.close()


async def opened(browser: "Browser", url: str, locale: str, *, scripts: bool = False) -> "Page":
    """Open the page on a phone."""
    context = await browser.new_context(
        viewport={"width": 360, "height": 760}, locale=locale, java_script_enabled=scripts
    )
    page = await context.new_page()
    await page.goto(url)
    return page


async def test_it_fits_a_phone_and_is_read_aloud(
    bureau: Office, browser: "Browser", tmp_path: Path
) -> None:
    """Nothing is cut at 360 px; fields have labels, buttons are large, and nothing was refused."""
    url = await bureau.ask()
    for locale, yes in (("fr-FR", "Accorder"), ("en-GB", "Approve")):
        page = await opened(browser, url, locale, scripts=True)
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        await page.reload()
        assert said == []  # the policy of the page refuses nothing of its own
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        unnamed = "[...document.querySelectorAll('input[type=text]')].filter(i => !i.labels.length)"
        assert await page.evaluate(f"{unnamed}.length") == 0
        assert await page.get_by_role("heading", level=1).count() == 1
        assert await page.get_by_role("row").count() == 4
        for button in (page.get_by_role("button", name=yes), page.locator("button.no")):
            box = await button.bounding_box()
            assert box is not None
            assert box["height"] >= 44
        contrast = await page.evaluate(CONTRAST)
        assert min(contrast.values()) >= 4.5, contrast
        picture = await page.screenshot(path=tmp_path / f"{locale}.png", full_page=True)
        assert picture.startswith(b"\x89PNG")


CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => {
    v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const behind = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)' && c !== 'transparent') return c } return 'rgb(255, 255, 255)' };
  const found = {};
  for (const e of document.querySelectorAll('h1, h2, p, th, td, label, button, a, footer, span')) {
    if (!e.textContent.trim() || !e.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    found[e.tagName + '.' + e.className] = (a + 0.05) / (b + 0.05);
  } return found }"""


async def test_a_press_decides_and_the_page_says_so(bureau: Office, browser: "Browser") -> None:
    """Without scripts: opening decides nothing, the key Enter neither, the button does, once."""
    url = await bureau.ask()
    page = await opened(browser, url, "fr-FR")
    await page.reload()
    await page.fill("#name", "Ana Ruiz")
    await page.press("#name", "Enter")
    await page.press("#reason", "Enter")
    assert await bureau.decided() == []
    other = await opened(browser, url, "en-GB")
    await page.get_by_role("button", name="Accorder").click()
    assert "lang=fr" in page.url
    assert "Ana Ruiz (link:chef)" in await page.inner_text("main")
    assert await page.get_by_role("button").count() == 0
    await page.reload()
    await page.go_back()
    await bureau.loom.drain()
    assert bureau.sent == ["compta@dupont.example"]
    await other.get_by_role("button", name="Refuse").click()
    assert "Ana Ruiz (link:chef)" in await other.inner_text("main")
    assert len(await bureau.decided()) == 1


async def test_the_language_is_changed_by_a_link(bureau: Office, browser: "Browser") -> None:
    """The link to the other language leads to the same page, and decides in that language."""
    url = await bureau.ask()
    page = await opened(browser, url, "fr-FR")
    await page.get_by_role("link", name="English").click()
    assert await page.get_by_role("button", name="Approve").count() == 1
    await page.get_by_role("button", name="Refuse").click()
    assert await page.inner_text("h1") == "Refused"
    (decision,) = await bureau.decided()
    assert decision["by"] == "link:chef"


async def test_a_question_keeps_what_was_typed(bureau: Office, browser: "Browser") -> None:
    """A fault is said at the top and at its field, and the rest is still there."""
    url = await bureau.question("Quelle remise ?", SCHEMA)
    page = await opened(browser, url, "en-GB")
    assert await page.inner_text("h1") == "Quelle remise\u00a0?"
    await page.get_by_label("Remise (%)").fill("beaucoup")
    await page.get_by_label("Yes").check()
    await page.get_by_label("Your name").fill("Ana")
    await page.get_by_role("button", name="Send the answer").click()
    assert "Remise (%)" in await page.get_by_role("alert").inner_text()
    assert await page.locator("[aria-invalid=true]").count() == 1
    assert await page.get_by_label("Yes").is_checked()
    assert await page.get_by_label("Your name").input_value() == "Ana"
    await page.get_by_label("Remise (%)").fill("10")
    await page.get_by_role("button", name="Send the answer").click()
    assert await page.inner_text("h1") == "Answered"
    (decision,) = await bureau.decided("q1")
    assert decision["answer"] == {"remise": 10, "urgent": True}


async def test_what_an_agent_writes_cannot_run(bureau: Office, browser: "Browser") -> None:
    """Even where scripts are allowed, what is shown stays text, and nothing else is fetched."""
    nasty = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    url = await bureau.question(nasty, {"type": "string", "title": nasty})
    context = await browser.new_context()
    page = await context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(url)
    await page.wait_for_load_state("networkidle")
    assert "pwned" not in (await page.title()).split("<")[0]
    assert await page.locator("img, script").count() == 0
    assert [one for one in asked if not one.endswith("favicon.ico")] == [url]
