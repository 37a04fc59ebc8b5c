"""What a node of a syntax tree defines, calls or imports: a table for each language, and the exceptions to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tree_sitter import Node

Kind = Literal["function", "method", "class", "interface", "type", "constant"]

HOLDERS: tuple[Kind, ...] = ("class", "interface", "type")  # what a method can belong to

# Nodes whose field `name` is the name of what they define.
_DEFINE: dict[str, dict[str, Kind]] = {
    "python": {"function_definition": "function", "class_definition": "class"},
    "go": {
        "function_declaration": "function",
        "method_declaration": "method",
        "method_elem": "method",
        "type_spec": "type",
        "type_alias": "type",
    },
    "typescript": {
        "function_declaration": "function",
        "generator_function_declaration": "function",
        "function_signature": "function",
        "class_declaration": "class",
        "abstract_class_declaration": "class",
        "method_definition": "method",
        "method_signature": "method",
        "abstract_method_signature": "method",
        "interface_declaration": "interface",
        "type_alias_declaration": "type",
        "enum_declaration": "type",
    },
    "java": {
        "class_declaration": "class",
        "enum_declaration": "class",
        "record_declaration": "class",
        "interface_declaration": "interface",
        "annotation_type_declaration": "interface",
        "method_declaration": "method",
        "constructor_declaration": "method",
        "compact_constructor_declaration": "method",
    },
    "rust": {
        "function_item": "function",
        "function_signature_item": "function",
        "struct_item": "type",
        "enum_item": "type",
        "union_item": "type",
        "type_item": "type",
        "associated_type": "type",
        "trait_item": "interface",
        "const_item": "constant",
        "static_item": "constant",
    },
}
# Nodes that call, with the field of what they call.
_CALL = {
    "call": "function",
    "call_expression": "function",
    "new_expression": "constructor",
    "method_invocation": "name",
    "object_creation_expression": "type",
}
_IMPORT = {
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
NODES = {language: frozenset({*define, *_CALL, *_IMPORT, *_QUOTED, *_SPECIAL}) for language, define in _DEFINE.items()}
"""The nodes of each language that say anything besides names: the others need not be looked at."""

NAMES = ("identifier", "identifier_pattern")
"""How the types of nodes end that are names."""

_NAME_AT = {"generic_type": 0, "non_null_expression": 0, "scoped_type_identifier": -1}  # which child has the name
_HERITAGE = {
    *("class_heritage", "extends_clause", "implements_clause", "extends_type_clause"),
    *("superclass", "super_interfaces", "extends_interfaces"),
}
_NO_BASE = ("keyword_argument", "comment", "dictionary_splat", "list_splat")
_FUNCTIONS = ("arrow_function", "function_expression", "generator_function")
_UPPER = re.compile(rb"_*[A-Z][A-Z0-9_]*\Z")
_DEEPEST_NAME = 20  # steps from a type such as `&mut a::Store<T>` to its name


def defined_by(language: str, node: Node, depth: int) -> tuple[Kind, list[Node]] | None:
    """What a node defines, and the nodes of the names; None if it defines nothing. `depth` is 0 for the root."""
    kind = _DEFINE[language].get(node.type)
    if kind is not None:
        name = node.child_by_field_name("name")
        return None if name is None else (_narrowed(kind, node), [name])
    match language, node.type:
        case "python", "type_alias_statement":
            return "type", _bare_names(node.child_by_field_name("left"))
        case "python", "assignment":
            left = node.child_by_field_name("left")
            is_constant = depth == 2 and left is not None and left.type == "identifier" and _UPPER.match(_text(left))
            return ("constant", [left]) if is_constant and left is not None else None
        case "go", "const_spec" | "var_spec":
            names = [name for name in node.children_by_field_name("name") if name.type == "identifier"]
            return ("constant", names) if depth <= 3 else None
        case "typescript", "variable_declarator":
            return _bound(node, depth)
        case "typescript", "public_field_definition":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            return ("method", [name]) if name is not None and value is not None and value.type in _FUNCTIONS else None
        case "java", "field_declaration" | "constant_declaration":
            return _java_constant(node)
    return None


def _narrowed(kind: Kind, node: Node) -> Kind:
    """A type of Go that is an interface is called so."""
    if node.type == "type_spec":
        written = node.child_by_field_name("type")
        return "interface" if written is not None and written.type == "interface_type" else kind
    return kind


def _bound(node: Node, depth: int) -> tuple[Kind, list[Node]] | None:
    """A variable of TypeScript that is a function, or a constant of the module."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "identifier" or _requires(value) or _requires_part(value):
        return None
    if value is not None and value.type in _FUNCTIONS:
        return "function", [name]
    declaration = node.parent
    is_constant = declaration is not None and declaration.children[0].type == "const"
    return ("constant", [name]) if depth <= 3 and is_constant and _is_of_module(declaration) else None


def _requires(value: Node | None) -> bool:
    """Whether a value is a module: `require("./a")` or `await import("./a")`."""
    if value is not None and value.type == "await_expression" and value.named_children:
        value = value.named_children[0]
    called = value.child_by_field_name("function") if value is not None and value.type == "call_expression" else None
    return called is not None and (called.type == "import" or _text(called) == b"require")


def _requires_part(value: Node | None) -> bool:
    """Whether a value is a thing of a module: `require("./a").open`."""
    return value is not None and value.type == "member_expression" and _requires(value.child_by_field_name("object"))


def _is_of_module(declaration: Node | None) -> bool:
    holder = declaration.parent if declaration is not None else None
    return holder is not None and holder.type in ("program", "export_statement")


def _java_constant(node: Node) -> tuple[Kind, list[Node]] | None:
    words = {word.type for child in node.children if child.type == "modifiers" for word in child.children}
    if node.type == "field_declaration" and not {"static", "final"} <= words:
        return None
    names = [each.child_by_field_name("name") for each in node.children_by_field_name("declarator")]
    return "constant", [name for name in names if name is not None]


def holder_of(language: str, node: Node) -> Node | None:
    """The name of the type whose methods a node holds or is: of an `impl` of Rust, of a method of Go."""
    if language == "rust" and node.type == "impl_item":
        return _bare_name(node.child_by_field_name("type"))
    if language == "go" and node.type == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        given = receiver.named_children[0] if receiver is not None and receiver.named_children else None
        return _bare_name(given.child_by_field_name("type") if given is not None else None)
    return None


def bases_of(language: str, node: Node) -> list[Node]:
    """The names of the classes, interfaces or traits that a class, an interface or an `impl` extends or implements."""
    if language == "rust":
        written = [node.child_by_field_name("trait")] if node.type == "impl_item" else []
    elif language == "python":
        listed = node.child_by_field_name("superclasses") if node.type == "class_definition" else None
        items = [each for each in (listed.named_children if listed is not None else ()) if each.type not in _NO_BASE]
        written = [each.child_by_field_name("value") if each.type == "subscript" else each for each in items]
    else:
        clauses = [inner for child in node.named_children if child.type in _HERITAGE for inner in _clauses(child)]
        written = [each for clause in clauses for each in clause.named_children if each.type != "type_arguments"]
    return [name for name in map(_last_name, written) if name is not None]


def _clauses(node: Node) -> list[Node]:
    """The lists of types in what follows the name of a class."""
    inner = [child for child in node.named_children if child.type in _HERITAGE or child.type == "type_list"]
    return inner or [node]


def called_by(language: str, node: Node) -> Node | None:
    """The name that a node calls, of `a.b.c()` the last; None if it calls nothing that has a name."""
    if node.type in _CALL:
        return _last_name(node.child_by_field_name(_CALL[node.type]))
    if node.type == "type_conversion_expression":  # what `Find[int](key)` of Go is taken for
        written = node.child_by_field_name("type")
        return _last_name(written) if written is not None and written.type == "generic_type" else None
    if language == "rust" and node.type == "identifier":  # the words of a macro are not parsed
        behind = node.next_sibling
        is_call = behind is not None and behind.type == "token_tree" and behind.children[0].type == "("
        return node if is_call else None
    return None


def imports(node: Node) -> bool:
    """Whether the names in a node are imported or handed on."""
    if node.type == "variable_declarator":
        return _requires(node.child_by_field_name("value"))
    return node.type in _IMPORT or (node.type == "export_statement" and node.child_by_field_name("source") is not None)


def quotes(node: Node) -> bool:
    """Whether a node is a comment or a string."""
    return node.type in _QUOTED


def is_name(node: Node) -> bool:
    return node.is_named and node.child_count == 0 and node.type.endswith(NAMES)


def _last_name(node: Node | None) -> Node | None:
    for _ in range(_DEEPEST_NAME):
        if node is None or is_name(node):
            return node
        inner = None
        for field in ("attribute", "field", "property", "name", "function", "type"):
            inner = inner or node.child_by_field_name(field)
        if inner is None and node.type in _NAME_AT and node.named_children:
            inner = node.named_children[_NAME_AT[node.type]]
        node = inner
    return None


def _bare_name(node: Node | None) -> Node | None:
    """The name in a type, without what it points to, is made of or is found in."""
    for _ in range(_DEEPEST_NAME):
        if node is None or is_name(node):
            return node
        named = node.child_by_field_name("name") or node.child_by_field_name("type")
        node = named or (node.named_children[0] if node.named_children else None)
    return None


def _bare_names(node: Node | None) -> list[Node]:
    found = _bare_name(node)
    return [] if found is None else [found]


def _text(node: Node) -> bytes:
    return node.text or b""
