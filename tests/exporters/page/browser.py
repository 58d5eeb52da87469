"""A headless Chromium for tests: starts Debian's, downloads nothing, and waits for conditions instead of sleeping."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from waiting import Waited

DEADLINE_SECONDS = 120
_T = TypeVar("_T")


def _start(options: ChromeOptions, driver: str) -> Chrome:
    """Start Chromium; retry if a busy machine exceeds the time-out of the driver (a minute) or of Selenium (30 s)."""
    for _ in range(2):
        with contextlib.suppress(WebDriverException):
            return Chrome(options, ChromeService(driver))
    return Chrome(options, ChromeService(driver))


@contextmanager
def starting_browser(profile: Path) -> Iterator[Browser]:
    """Run Chromium while the block runs."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program, "install Debian's package chromium"
    assert driver, "install Debian's package chromium-driver"
    options = ChromeOptions()
    options.binary_location = program
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With both paths given Selenium does not search for a driver.
    chrome = _start(options, driver)
    # axe-core checks every element of a page, which takes long beside other work.
    chrome.set_script_timeout(DEADLINE_SECONDS)
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()


#: Selenium finds an element before it clicks it, and the page may have redrawn it in between.
_CLICK = "const found = document.querySelector(arguments[0]); found?.click(); return found !== null"


#: Whether the page is connected and the visible view is complete. For the text of a whole view Selenium checks the
#: visibility of each element, which takes Chromium seconds on a busy machine.
_IS_LIVE = "return document.getElementById('connection-text')?.innerText.trim() === 'Live'"
_IS_LOADED = "return document.querySelector('main')?.innerText.includes('Loading') === false"
#: Checking a condition slows down what is awaited: checks take at most a third of the time.
_PAUSES_PER_LOOK, _SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 0.05, 0.5


class Browser:
    """A page in the browser, and what tests do with it."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def show(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open an address in a window of a size, with empty storage and an empty console."""
        self.driver.get("about:blank")
        self.command("Network.clearBrowserCache")
        self.command("Emulation.setTimezoneOverride", timezoneId="")
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.complaints()
        self.driver.get(url)

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command of the Chrome DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript and return its result."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> list[WebElement]:
        """Return the elements that match a CSS selector."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def texts(self, selector: str) -> list[str]:
        """Return the visible texts of the elements that match a CSS selector."""
        # The page may replace an element between finding and reading it; `wait` handles this.
        (found,) = self.wait(lambda: ([each.text for each in self.find(selector)],))
        return found

    def text(self, selector: str) -> str:
        """Return the text of the first match, or an empty text if there is none."""
        return next(iter(self.texts(selector)), "")

    def click(self, selector: str) -> None:
        """Click the first match, once there is one, even if the page replaces the element meanwhile."""
        self.wait(lambda: self.run(_CLICK, selector))

    def press(self, *keys: str) -> None:
        """Press keys one after the other, in the focused element."""
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def shows(self, selector: str, text: str) -> bool:
        """Return whether a text appears in a match of a CSS selector."""
        return any(text in each for each in self.texts(selector))

    def focused(self) -> str:
        """Return id or text of the focused element."""
        return str(self.run("const e = document.activeElement; return e.id || e.innerText.trim()"))

    def wait(self, condition: Callable[[], _T], seconds: float = DEADLINE_SECONDS) -> _T:
        """Wait until a condition holds, and return its value."""
        waited = Waited()
        while True:
            began = time.monotonic()
            try:
                found = condition()
            except StaleElementReferenceException:
                found = None
            if found:
                return found
            look_seconds = time.monotonic() - began
            if waited.go_on() > seconds:
                raise AssertionError(f"waited in vain; {self.complaints()}; the page says: {self.text('body')[:2000]}")
            time.sleep(max(_SHORTEST_PAUSE_SECONDS, min(_LONGEST_PAUSE_SECONDS, _PAUSES_PER_LOOK * look_seconds)))

    def complaints(self) -> list[str]:
        """Return the browser's error messages since the last call."""
        get_log: Callable[[str], list[dict[str, Any]]] = self.driver.get_log
        return [entry["message"] for entry in get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]

    def wait_live(self) -> None:
        """Wait until the page is connected and has loaded."""
        self.wait(lambda: self.run(_IS_LIVE))

    def wait_loaded(self) -> None:
        """Wait until the visible view has loaded completely."""
        self.wait(lambda: self.run(_IS_LOADED))
