"""Puts a document into the page: data as data, and a policy that lets nothing run but the page's own script.

The template (`page.html`, built from `web/`) has one script, one style and two marks. The data become a script element
of type application/json, which no browser runs; `<`, `>` and `&` are written as escapes, so that no text ends the
element or begins another. The policy names the script and the style by their hashes: whatever else should get into the
page is neither run nor fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from importlib import resources
from typing import Any

FORMAT = "qkv-inspect/1"
POLICY_MARK = "<!--qkv:policy-->"
DATA_MARK = "<!--qkv:data-->"
# what could end the element, what JavaScript once took for ends of lines, and halves of characters that UTF-8 has not
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def template() -> str:
    """The page without data, as it lies in the package."""
    return resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")


def fill(template: str, document: dict[str, Any]) -> str:
    """The page with `document` (format qkv-inspect/1) in it; numbers that are not finite become null."""
    found = document.get("format")
    if found != FORMAT:
        raise ValueError(f"The page draws {FORMAT}, not {found!r}.")
    start, policy, rest = template.partition(POLICY_MARK)
    middle, data, end = rest.partition(DATA_MARK)
    if not (policy and data):
        raise ValueError(f"The template lacks {DATA_MARK if policy else POLICY_MARK}: build it anew with `make web`.")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy(template)}">'
    element = f'<script type="application/json" id="qkv-data">{script_json(document)}</script>'
    return f"{start}{meta}{middle}{element}{end}"


def content_security_policy(template: str) -> str:
    """Nothing may be loaded or run but the script and the style that are in `template`, by their hashes."""
    scripts, styles = (_hashes(template, element) for element in ("script", "style"))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def script_json(value: Any) -> str:
    """JSON that may stand in a script element whatever its texts are."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    """`value` with None for what JSON cannot say: it knows no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _hashes(template: str, element: str) -> str:
    found = re.findall(rf"<{element}\b[^>]*>(.*?)</{element}>", template, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
