"""Colour-blind safe colours (after Okabe and Ito), for light and dark backgrounds."""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff",
    "band": "#f5f6f8",
    "ink": "#16191d",
    "soft": "#59616b",
    "line": "#d6dbe1",
    "better": "#0065a3",
    "worse": "#b84a00",
    "open": "#6b5796",
    "tie": "#aab2bc",
    "mark": "#5d4a8a",
    "k0": "#4d5763",
    "k1": "#0072b2",
    "k2": "#c65300",
    "k3": "#00805e",
    "k4": "#a8508a",
    "k5": "#8f6400",
}
DARK = {
    "paper": "#0f1216",
    "band": "#191e25",
    "ink": "#e8ecf1",
    "soft": "#a0aab6",
    "line": "#323a44",
    "better": "#6db9f0",
    "worse": "#ff9a57",
    "open": "#c4aef0",
    "tie": "#5c6773",
    "mark": "#c4aef0",
    "k0": "#b4bfcb",
    "k1": "#6db9f0",
    "k2": "#ff9a57",
    "k3": "#44cfa6",
    "k4": "#eba0d0",
    "k5": "#eec04d",
}
SERIES = 6  # colours of variants, the first for the baseline; further variants reuse them with other marks

_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif"


def rules(colour: dict[str, str] | None, within: str = "") -> str:
    """The CSS rules of a drawing, with these colours, else with the CSS variables of the page; `within` is a prefix of
    all selectors."""

    def of(name: str) -> str:
        return colour[name] if colour else f"var(--{name})"

    written = {
        "text": f"font:13px {_FONT};fill:{of('ink')}",
        ".soft": f"fill:{of('soft')}",
        ".strong": "font-weight:600",
        ".title": "font-size:16px;font-weight:600",
        ".note": f"font-size:12px;fill:{of('soft')}",
        ".mark": f"font-size:12px;font-weight:600;fill:{of('mark')}",
        ".inside": f"font-weight:600;fill:{of('paper')}",
        ".paper": f"fill:{of('paper')}",
        ".grid": f"stroke:{of('line')};stroke-width:1",
        ".zero": f"stroke:{of('ink')};stroke-width:1.5",
        ".margin": f"stroke:{of('soft')};stroke-width:1;stroke-dasharray:4 4",
        ".between": f"fill:{of('line')};fill-opacity:.45",
        **{f".{name}": f"color:{of(name)}" for name in ("better", "worse", "open", "tie")},
        ".grey": f"color:{of('soft')}",
        **{f".k{number}": f"color:{of(f'k{number}')}" for number in range(SERIES)},
    }
    return "".join(f"{within}{selector}{{{body}}}" for selector, body in written.items())


def variables(colour: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colour.items())
