"""What a reader does with the page, and how long each act takes."""

from __future__ import annotations

from collections.abc import Iterator

from web.browser import Browser

PICK = "[...document.querySelectorAll('#attention .choices button')].find(b => b.textContent === {!r}).click()"
ACTS = 12
# acts, each followed by the frame that shows it
REPEATED = f"""(async () => {{
  const shown = () => new Promise(done => requestAnimationFrame(() => {{
    const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0) }}));
  for (let i = 0; i < {ACTS}; i++) {{
    await shown();
    ACT;
    await shown();
  }}
}})()"""


def every_mode(browser: Browser) -> Iterator[str]:
    for mode in ("All heads", "Matrix", "Lines"):
        browser.run(PICK.format(mode))
        browser.run("new Promise(done => setTimeout(done, 150))")
        yield mode


def worked(browser: Browser) -> float:
    """Milliseconds of the processor that the page's thread has had: what else runs on the machine does not count."""
    return 1000 * next(
        each["value"] for each in browser.call("Performance.getMetrics")["metrics"] if each["name"] == "TaskDuration"
    )


def quick(browser: Browser, act: str) -> float:
    before = worked(browser)
    browser.run(REPEATED.replace("ACT", act))
    return (worked(browser) - before) / ACTS


def timed(browser: Browser) -> dict[str, float]:
    """Milliseconds of work for another head and another place, in every way that attention is drawn."""
    browser.call("Performance.enable", timeDomain="threadTicks")
    figures = {}
    there = browser.run("[...document.querySelectorAll('main > section')].map(s => s.id)")
    for mode in every_mode(browser):
        turn = "document.querySelector(`[aria-label='${i % 2 ? 'previous' : 'next'} head']`).click()"
        figures[f"{mode}: head"] = quick(browser, turn)
        if mode != "All heads":
            scroll = "document.querySelector('#attention .scroller').scrollTop = 700 * i"
            figures[f"{mode}: scroll"] = quick(browser, scroll)
    figures["page: scroll"] = quick(browser, "window.scrollTo({top: 400 * i, behavior: 'instant'})")
    if "lens" in there:
        figures["lens: scroll"] = quick(browser, "document.querySelector('#lens .scroller').scrollLeft = 900 * i")
    return figures
