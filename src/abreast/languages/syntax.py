"""The definitions, calls and imports of syntax trees: a table per language, and the exceptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tree_sitter import Node

Kind = Literal["function", "method", "class", "interface", "type", "constant"]

OWNER_KINDS: tuple[Kind, ...] = ("class", "interface", "type")  # kinds that can have methods


def _kind(kind: Kind, *nodes: str) -> dict[str, Kind]:
    return dict.fromkeys(nodes, kind)


# Nodes that define the name in their field `name`.
_DEFINES: dict[str, dict[str, Kind]] = {
    "python": {"function_definition": "function", "class_definition": "class"},
    "go": {
        "function_declaration": "function",
        **_kind("method", "method_declaration", "method_elem"),
        **_kind("type", "type_spec", "type_alias"),
    },
    "typescript": {
        **_kind("function", "function_declaration", "generator_function_declaration", "function_signature"),
        **_kind("class", "class_declaration", "abstract_class_declaration"),
        **_kind("method", "method_definition", "method_signature", "abstract_method_signature"),
        "interface_declaration": "interface",
        **_kind("type", "type_alias_declaration", "enum_declaration"),
    },
    "java": {
        **_kind("class", "class_declaration", "enum_declaration", "record_declaration"),
        **_kind("interface", "interface_declaration", "annotation_type_declaration"),
        **_kind("method", "method_declaration", "constructor_declaration", "compact_constructor_declaration"),
    },
    "rust": {
        **_kind("function", "function_item", "function_signature_item"),
        **_kind("type", "struct_item", "enum_item", "union_item", "type_item", "associated_type"),
        "trait_item": "interface",
        **_kind("constant", "const_item", "static_item"),
    },
}
# Nodes that call, with the field of the callee.
_CALLS = {
    "call": "function",
    "call_expression": "function",
    "new_expression": "constructor",
    "method_invocation": "name",
    "object_creation_expression": "type",
}
_IMPORTS = {
    *("import_statement", "import_from_statement", "future_import_statement", "import_declaration"),
    *("use_declaration", "extern_crate_declaration", "export_clause"),
}
_QUOTED = {
    *("comment", "line_comment", "block_comment", "html_comment", "hash_bang_line", "jsx_text", "regex"),
    *("string", "string_literal", "raw_string_literal", "interpreted_string_literal", "template_string"),
    *("char_literal", "character_literal", "rune_literal"),
}
_SPECIAL = {
    *("type_alias_statement", "assignment", "const_spec", "var_spec", "variable_declarator", "impl_item"),
    *("public_field_definition", "field_declaration", "constant_declaration", "type_conversion_expression"),
    *("export_statement",),
}
NODES = {
    language: frozenset({*define, *_CALLS, *_IMPORTS, *_QUOTED, *_SPECIAL}) for language, define in _DEFINES.items()
}
"""The nodes of each language that matter, other than names."""

NAMES = ("identifier", "identifier_pattern")
"""Suffixes of the types of name nodes."""

_NAME_POSITIONS = {
    "generic_type": 0,
    "non_null_expression": 0,
    "scoped_type_identifier": -1,
}  # index of the child that has the name
_HERITAGE = {
    *("class_heritage", "extends_clause", "implements_clause", "extends_type_clause"),
    *("superclass", "super_interfaces", "extends_interfaces"),
}
_NOT_A_BASE = ("keyword_argument", "comment", "dictionary_splat", "list_splat")
_FUNCTIONS = ("arrow_function", "function_expression", "generator_function")
_CONSTANT_NAME = re.compile(rb"_*[A-Z][A-Z0-9_]*\Z")
_MAX_STEPS = 20  # steps from a type such as `&mut a::Store<T>` to its name


def definition_of(language: str, node: Node, depth: int) -> tuple[Kind, list[Node]] | None:
    """Return the kind and the name nodes of a definition; None for other nodes. `depth` is 0 for the root."""
    kind = _DEFINES[language].get(node.type)
    if kind is not None:
        name = node.child_by_field_name("name")
        return None if name is None else (_go_kind(kind, node), [name])
    match language, node.type:
        case "python", "type_alias_statement":
            return "type", _bare_names(node.child_by_field_name("left"))
        case "python", "assignment":
            target = node.child_by_field_name("left")
            is_constant = (
                depth == 2
                and target is not None
                and target.type == "identifier"
                and _CONSTANT_NAME.match(_text(target))
            )
            return ("constant", [target]) if is_constant and target is not None else None
        case "go", "const_spec" | "var_spec":
            names = [name for name in node.children_by_field_name("name") if name.type == "identifier"]
            return ("constant", names) if depth <= 3 else None
        case "typescript", "variable_declarator":
            return _variable_definition(node, depth)
        case "typescript", "public_field_definition":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            return ("method", [name]) if name is not None and value is not None and value.type in _FUNCTIONS else None
        case "java", "field_declaration" | "constant_declaration":
            return _java_constant(node)
    return None


def _go_kind(kind: Kind, node: Node) -> Kind:
    """Return the kind of a definition; Go declares interfaces as types."""
    if node.type == "type_spec":
        declared = node.child_by_field_name("type")
        return "interface" if declared is not None and declared.type == "interface_type" else kind
    return kind


def _variable_definition(node: Node, depth: int) -> tuple[Kind, list[Node]] | None:
    """Return a TypeScript variable that is a function, or a constant of the module."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "identifier" or _is_required_module(value) or _is_required_member(value):
        return None
    if value is not None and value.type in _FUNCTIONS:
        return "function", [name]
    declaration = node.parent
    is_constant = declaration is not None and declaration.children[0].type == "const"
    return ("constant", [name]) if depth <= 3 and is_constant and _is_top_level(declaration) else None


def _is_required_module(value: Node | None) -> bool:
    """Whether a value is a module: `require("./a")` or `await import("./a")`."""
    if value is not None and value.type == "await_expression" and value.named_children:
        value = value.named_children[0]
    callee = value.child_by_field_name("function") if value is not None and value.type == "call_expression" else None
    return callee is not None and (callee.type == "import" or _text(callee) == b"require")


def _is_required_member(value: Node | None) -> bool:
    """Whether a value is a member of a module: `require("./a").open`."""
    return (
        value is not None
        and value.type == "member_expression"
        and _is_required_module(value.child_by_field_name("object"))
    )


def _is_top_level(declaration: Node | None) -> bool:
    parent = declaration.parent if declaration is not None else None
    return parent is not None and parent.type in ("program", "export_statement")


def _java_constant(node: Node) -> tuple[Kind, list[Node]] | None:
    modifiers = {word.type for child in node.children if child.type == "modifiers" for word in child.children}
    if node.type == "field_declaration" and not {"static", "final"} <= modifiers:
        return None
    names = [child.child_by_field_name("name") for child in node.children_by_field_name("declarator")]
    return "constant", [name for name in names if name is not None]


def owner_of(language: str, node: Node) -> Node | None:
    """Return the name of the type that owns the methods of a Rust `impl`, or a Go method."""
    if language == "rust" and node.type == "impl_item":
        return _bare_name(node.child_by_field_name("type"))
    if language == "go" and node.type == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        parameter = receiver.named_children[0] if receiver is not None and receiver.named_children else None
        return _bare_name(parameter.child_by_field_name("type") if parameter is not None else None)
    return None


def bases_of(language: str, node: Node) -> list[Node]:
    """Return the names of the classes, interfaces or traits that a class, an interface or an `impl` extends or
    implements."""
    types: list[Node | None]
    if language == "rust":
        types = [node.child_by_field_name("trait")] if node.type == "impl_item" else []
    elif language == "python":
        arguments = node.child_by_field_name("superclasses") if node.type == "class_definition" else None
        children = arguments.named_children if arguments is not None else ()
        items = [child for child in children if child.type not in _NOT_A_BASE]
        types = [item.child_by_field_name("value") if item.type == "subscript" else item for item in items]
    else:
        clauses = [inner for child in node.named_children if child.type in _HERITAGE for inner in _clauses(child)]
        types = [child for clause in clauses for child in clause.named_children if child.type != "type_arguments"]
    return [name for name in map(_last_name, types) if name is not None]


def _clauses(node: Node) -> list[Node]:
    inner = [child for child in node.named_children if child.type in _HERITAGE or child.type == "type_list"]
    return inner or [node]


def called_name(language: str, node: Node) -> Node | None:
    """Return the name that a node calls, `c` in `a.b.c()`, if any."""
    if node.type in _CALLS:
        return _last_name(node.child_by_field_name(_CALLS[node.type]))
    if node.type == "type_conversion_expression":  # the grammar reads Go's `Find[int](key)` as a conversion
        converted = node.child_by_field_name("type")
        return _last_name(converted) if converted is not None and converted.type == "generic_type" else None
    if language == "rust" and node.type == "identifier":  # arguments of a macro are not parsed
        following = node.next_sibling
        is_call = following is not None and following.type == "token_tree" and following.children[0].type == "("
        return node if is_call else None
    return None


def is_import(node: Node) -> bool:
    """Whether a node imports or re-exports the names in it."""
    if node.type == "variable_declarator":
        return _is_required_module(node.child_by_field_name("value"))
    return node.type in _IMPORTS or (node.type == "export_statement" and node.child_by_field_name("source") is not None)


def is_quoted(node: Node) -> bool:
    return node.type in _QUOTED


def is_name(node: Node) -> bool:
    return node.is_named and node.child_count == 0 and node.type.endswith(NAMES)


def _last_name(node: Node | None) -> Node | None:
    for _ in range(_MAX_STEPS):
        if node is None or is_name(node):
            return node
        inner = None
        for field in ("attribute", "field", "property", "name", "function", "type"):
            inner = inner or node.child_by_field_name(field)
        if inner is None and node.type in _NAME_POSITIONS and node.named_children:
            inner = node.named_children[_NAME_POSITIONS[node.type]]
        node = inner
    return None


def _bare_name(node: Node | None) -> Node | None:
    """Return the name in a type, without pointers, type arguments and packages."""
    for _ in range(_MAX_STEPS):
        if node is None or is_name(node):
            return node
        inner = node.child_by_field_name("name") or node.child_by_field_name("type")
        node = inner or (node.named_children[0] if node.named_children else None)
    return None


def _bare_names(node: Node | None) -> list[Node]:
    name = _bare_name(node)
    return [] if name is None else [name]


def _text(node: Node) -> bytes:
    return node.text or b""
