"""The import layers: a package imports from itself and from lower layers, never from a higher one."""

from __future__ import annotations

import ast
from pathlib import Path

import abreast

SOURCE = Path(abreast.__file__).parent

LAYERS = [
    [
        "model",
        "errors",
        "rate_headers",
        "digest",
        "settings",
        "globs",
        "mcp_protocol",
        "regex_timeout",
        "filenames",
        "output",
        "plugins",
        "signals",
        "sizes",
        "text",
    ],
    ["redaction"],
    ["code"],
    ["languages"],
    ["stats"],
    ["store"],
    ["targets", "scorers", "fake"],
    ["cluster"],
    ["spec"],
    ["plan"],
    ["preflight"],
    ["execute"],
    ["analyse"],
    ["report"],
    ["progress"],
    ["experiment"],
    ["importers"],
    ["view"],
    ["suites"],
    ["tracker"],
    ["cli"],
    ["github"],
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[int, str]]:
    """The packages that a file imports with the line of each import, late imports included."""
    imported = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "abreast":
            imported += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("abreast."):
            imported.append((node.lineno, str(node.module).split(".")[1]))
        elif isinstance(node, ast.Import):
            imported += [(node.lineno, a.name.split(".")[1]) for a in node.names if a.name.startswith("abreast.")]
    return imported


def test_every_package_has_a_layer() -> None:
    rooms = {package_of(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert rooms <= set(LEVEL), f"rooms without a layer: {rooms - set(LEVEL)}"


def test_imports_never_point_back() -> None:
    violations = []
    for path in SOURCE.rglob("*.py"):
        package = package_of(path)
        if package in ("__init__", "__main__"):
            continue
        for line, other in imports(path):
            if other in LEVEL and (
                LEVEL[other] > LEVEL[package] or (LEVEL[other] == LEVEL[package] > 0 and other != package)
            ):
                violations.append(f"{path.relative_to(SOURCE)}:{line}: {package} imports {other}")
    assert not violations, "\n".join(violations)


def test_the_layer_test_detects_an_import_of_a_higher_layer(tmp_path: Path) -> None:
    late = tmp_path / "late.py"
    late.write_text("def f():\n    from abreast.cli import main\n    import abreast.progress.displays\n")
    assert imports(late) == [(2, "cli"), (3, "progress")]


SUITES = {"code_search", "coding_agents", "numbers"}


def named_suites(path: Path) -> list[str]:
    """The suites, and the fake provider, that a file imports by name."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[:2] == ["abreast", "fake"] or (
                parts[:2] == ["abreast", "suites"] and parts[2:3] and parts[2] in SUITES
            ):
                lines.append(f"{path.name}:{node.lineno}: {'.'.join(parts)}")
    return lines


def test_the_core_uses_suites_and_the_fake_provider_only_through_entry_points() -> None:
    core = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ("suites", "fake")]
    core.append(SOURCE / "suites" / "__init__.py")
    lines = [line for path in core for line in named_suites(path)]
    assert not lines, "\n".join(lines)


def test_the_suite_test_detects_an_import_by_name(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("from abreast.suites import numbers\ndef f():\n    import abreast.fake.server\n")
    assert named_suites(module) == ["module.py:1: abreast.suites.numbers", "module.py:3: abreast.fake.server"]
