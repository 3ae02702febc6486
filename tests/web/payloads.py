"""Texts that would run as code, were they ever taken for markup: each calls `ran()`."""

from __future__ import annotations

import itertools

CALL = "(window.ran=1,alert(1))"
ELEMENTS = [
    f"<script>{CALL}</script>",
    f"<SCRIPT>{CALL}</SCRIPT>",
    f"<scr<script>ipt>{CALL}</script>",
    f"<img src=x onerror={CALL}>",
    f"<img/src/onerror={CALL}>",
    f'<img src="x" onerror="{CALL}">',
    f"<svg onload={CALL}>",
    f"<svg/onload={CALL}//",
    f"<svg><script>{CALL}</script></svg>",
    f"<svg><animate onbegin={CALL} attributeName=x dur=1s>",
    f"<body onload={CALL}>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<iframe src=javascript:{CALL}></iframe>",
    f"<a href=javascript:{CALL}>x</a>",
    f"<details open ontoggle={CALL}>x</details>",
    f"<input autofocus onfocus={CALL}>",
    f"<video><source onerror={CALL}></video>",
    f"<audio src onerror={CALL}>",
    f"<object data=javascript:{CALL}></object>",
    f"<embed src=javascript:{CALL}>",
    f"<math><mi xlink:href=javascript:{CALL}>x</mi></math>",
    f"<form><button formaction=javascript:{CALL}>x</button></form>",
    f"<meta http-equiv=refresh content='0;url=javascript:{CALL}'>",
    f"<base href=javascript:{CALL}//>",
    f"<link rel=stylesheet href=javascript:{CALL}>",
    f"<style>@import 'javascript:{CALL}';</style>",
    f"<div style=background:url(javascript:{CALL})>x</div>",
    f"<marquee onstart={CALL}>x</marquee>",
    f"<template><script>{CALL}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={CALL}>'></noscript>",
    f"<x contenteditable onblur={CALL} tabindex=1 autofocus>x</x>",
    f"{{@html '<img src=x onerror={CALL}>'}}",
    f"${{{CALL}}}",
    f"javascript:{CALL}",
    f"constructor.constructor('{CALL}')()",
]
FRAMES = [
    "{}",
    "</script>{}",
    "--></script>{}<!--",
    '"}}]}}</script>{}',
    "'\">{}",
    "</title></textarea></style>{}",
    "<!--<script>{}",
    "]]>{}\u2028",
    "\\u003c/script\\u003e{}",
]


def payloads() -> list[str]:
    return [frame.format(element) for frame, element in itertools.product(FRAMES, ELEMENTS)]
