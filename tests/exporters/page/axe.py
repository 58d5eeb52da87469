"""axe-core, which finds what keeps people from using a page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from exporters.page.browser import Browser

#: WCAG 2.1 up to level AA, and what axe holds for good practice.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(browser: Browser) -> list[str]:
    """Return what axe objects to on the page as it is: rule, what is wrong, and where."""
    if not browser.run("return typeof axe === 'object'"):
        browser.run(files("axe_core_python").joinpath("axe.min.js").read_text())
    found: list[dict[str, Any]] = browser.driver.execute_async_script(
        # It would list every element that passes too, with a selector for each.
        "const done = arguments[1], only = {runOnly: arguments[0], resultTypes: ['violations']};"
        "axe.run(document, only).then((r) => done(r.violations))",
        _TAGS,
    )
    return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
