"""What a reader does with the page, and how long each act takes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from web.browser import Browser

PICK = "[...document.querySelectorAll('#attention .choices button')].find(b => b.textContent === {!r}).click()"
# the time from an act until the frame that shows it is on its way
TIMED = """(async () => {
  const shown = () => new Promise(done => requestAnimationFrame(() => {
    const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0) }));
  const times = [];
  for (let i = 0; i < 12; i++) {
    await shown();
    const start = performance.now();
    ACT;
    await shown();
    times.push(performance.now() - start);
  }
  return times;
})()"""


def every_mode(browser: Browser) -> Iterator[str]:
    for mode in ("All heads", "Matrix", "Lines"):
        browser.run(PICK.format(mode))
        browser.run("new Promise(done => setTimeout(done, 150))")
        yield mode


def quick(browser: Browser, act: str) -> float:
    """The median of one of three rounds: a busy machine may disturb the others."""
    return min(statistics.median(browser.run(TIMED.replace("ACT", act))) for _ in range(3))


def timed(browser: Browser) -> dict[str, float]:
    """Milliseconds for another head and another place, in every way that attention is drawn."""
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
