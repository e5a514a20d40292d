"""The page: Jinja templates, and everything that they need inside of one file.

Whatever a release holds is text that somebody else wrote. It reaches the page escaped by Jinja, or as JSON in which
no character can end its element; and the page's policy lets no script run but its own two, known by their hashes,
and lets nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

__all__ = ["as_json", "render"]

_TEMPLATES = "templates"
_SCRIPTS = ("theme.js", "events.js", "browser.js", "main.js")


def render(facts: dict[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    facts
        What `report.html.j2` names.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["as_json"] = as_json
    environment.filters["code"] = _code
    own = "(() => {\n'use strict';\n" + "\n".join(_text(name) for name in _SCRIPTS) + "\n})();\n"
    scripts = [_bokeh(), own]
    policy = (
        f"default-src 'none'; script-src {' '.join(_hash(script) for script in scripts)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )
    page = environment.get_template("report.html.j2")
    # Both come with the package and with Bokeh; nothing of a release is in them.
    marked = [Markup(script) for script in scripts]  # noqa: S704
    return page.render(**facts, scripts=marked, policy=policy, style=Markup(_text("report.css")))  # noqa: S704


def as_json(value: Any) -> Markup:
    """Return a value as JSON that may stand in an element of a page.

    `<`, `>` and `&` are written as escapes, so that no text can end the element or begin another.
    """
    text = msgspec.json.encode(value).decode("utf-8")
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - see above


def _bokeh() -> str:
    from bokeh.resources import Resources

    return "\n".join(Resources(mode="inline", components=["bokeh"], minified=True).js_raw)


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _code(text: str) -> Markup:
    """Escape a text and set what stands between backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def _template(name: str) -> str:
    return _text(name)


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(_TEMPLATES, name).read_text(encoding="utf-8")
