"""axe-core, which finds accessibility problems of a page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from exporters.page.browser import Browser

#: WCAG 2.1 up to level AA, and axe's best practices.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def violations(browser: Browser) -> list[str]:
    """Return axe's complaints about the current page: rule, problem and place."""
    if not browser.run("return typeof axe === 'object'"):
        browser.run(files("axe_core_python").joinpath("axe.min.js").read_text())
    found: list[dict[str, Any]] = browser.driver.execute_async_script(
        # Otherwise axe also lists every element that passes, with a selector for each.
        "const done = arguments[1], only = {runOnly: arguments[0], resultTypes: ['violations']};"
        "axe.run(document, only).then((r) => done(r.violations))",
        _TAGS,
    )
    return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
