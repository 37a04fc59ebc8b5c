"""Rewrite src/abreast/redaction/gitleaks.json from a checkout of gitleaks: `python tools/update_gitleaks.py CHECKOUT`.

Kept are the rules that recognise a key by its own format. Left out are rules that guess from the words around a value,
because they would also replace hashes and identifiers in diffs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/abreast/redaction/gitleaks.json"
CONTEXT = r"[\w.-]{0,50}?"  # how rules begin that look for a name before the value
GUESSES = {
    "curl-auth-header",
    "curl-auth-user",
    "facebook-access-token",
    "flutterwave-public-key",
    "freemius-secret-key",
    "jwt-base64",
    "kubernetes-secret-yaml",
    "nuget-config-password",
    "sidekiq-sensitive-url",
    "sourcegraph-access-token",
    "twilio-api-key",
}
KEYWORDS = {  # narrower than gitleaks' own; a keyword must be part of the key itself
    "airtable-personnal-access-token": ["pat"],
    "cloudflare-origin-ca-key": ["v1.0-"],
    "intra42-client-secret": ["s-s4t2ud-", "s-s4t2af-"],
    "jwt": ["eyj"],
    "vault-service-token": ["hvs."],
}
END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""


def python_pattern(pattern: str) -> str:
    """Translate Go's syntax, where `(?i)` may stand in the middle of a group."""
    flags = "(?i)" if pattern.startswith("(?i)") else ""
    pattern = pattern.removeprefix("(?i)")
    while (start := pattern.find("(?i)")) >= 0:
        end = group_end(pattern, start + 4)
        pattern = f"{pattern[:start]}(?i:{pattern[start + 4 : end]}){pattern[end:]}"
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z").replace(END, "(?![A-Za-z0-9_-])")
    return flags + pattern


def group_end(pattern: str, start: int) -> int:
    """Find the end of the group that encloses a position."""
    depth = 0
    for part in re.finditer(r"\\.|\[(?:\\.|[^\]])*\]|[()]", pattern[start:]):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth < 0:
            return start + part.start()
    return len(pattern)


def main(checkout: str) -> None:
    def show(*arguments: str) -> str:
        return subprocess.run(["git", "-C", checkout, *arguments], check=True, capture_output=True, text=True).stdout

    rules = [
        {
            "id": rule["id"],
            "keywords": KEYWORDS.get(rule["id"], rule["keywords"]),
            "pattern": python_pattern(rule["regex"]),
        }
        for rule in tomllib.loads(show("show", "HEAD:config/gitleaks.toml"))["rules"]
        if rule.get("regex") and CONTEXT not in rule["regex"] and rule["id"] not in GUESSES
    ]
    for rule in rules:
        re.compile(rule["pattern"])
    commit = show("rev-parse", "HEAD").strip()
    source = json.dumps(f"https://github.com/gitleaks/gitleaks/blob/{commit}/config/gitleaks.toml")
    licence = json.dumps(show("show", "HEAD:LICENSE").splitlines(), indent=2)
    lines = ",\n".join(json.dumps(rule) for rule in rules)
    TARGET.write_text(f'{{"source": {source},\n"licence": {licence},\n"rules": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
