"""Which nodes of a syntax tree are symbols, for each programming language that is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tree_sitter_c
import tree_sitter_c_sharp
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_python
import tree_sitter_rust
import tree_sitter_typescript
from tree_sitter import Language


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Grammar:
    """Node types by what they are: `types` hold symbols in a body, `wrappers` are part of what they hold.

    What is in none of them is plain code. `passed` nodes are that too, but symbols are looked for inside.
    """

    pointer: Callable[[], object]  # to the compiled grammar
    functions: frozenset[str]
    types: frozenset[str]
    wrappers: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()

    def language(self) -> Language:
        """The compiled grammar."""
        return Language(self.pointer())


# what stands right above a symbol and belongs to it
LEADING = _words("comment line_comment block_comment attribute_item decorator access_specifier")
# names given to functions: JavaScript's `const f = () => 1`, `exports.f = function () {}`, `f = () => 1` in a class
NAMED_VALUES = _words("lexical_declaration variable_declaration expression_statement field_definition")
NAMED_VALUES |= _words("public_field_definition")
FUNCTION_VALUES = _words("arrow_function function_expression generator_function")

_C_PASSED = _words("preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list")
_JAVASCRIPT_FUNCTIONS = _words("function_declaration generator_function_declaration method_definition")
_TYPESCRIPT = Grammar(
    tree_sitter_typescript.language_typescript,
    _JAVASCRIPT_FUNCTIONS | _words("type_alias_declaration abstract_method_signature function_signature"),
    _words("class_declaration abstract_class_declaration interface_declaration enum_declaration")
    | _words("internal_module module"),
    wrappers=_words("export_statement ambient_declaration"),
    passed=_words("expression_statement"),  # a namespace is one
)

GRAMMARS = {
    "python": Grammar(
        tree_sitter_python.language,
        _words("function_definition"),
        _words("class_definition"),
        wrappers=_words("decorated_definition"),
        passed=_words("if_statement else_clause try_statement except_clause block"),
    ),
    "javascript": Grammar(
        tree_sitter_javascript.language,
        _JAVASCRIPT_FUNCTIONS,
        _words("class_declaration"),
        wrappers=_words("export_statement"),
    ),
    "typescript": _TYPESCRIPT,
    "tsx": Grammar(
        tree_sitter_typescript.language_tsx,
        _TYPESCRIPT.functions,
        _TYPESCRIPT.types,
        wrappers=_TYPESCRIPT.wrappers,
        passed=_TYPESCRIPT.passed,
    ),
    "go": Grammar(
        tree_sitter_go.language, _words("function_declaration method_declaration type_declaration"), frozenset()
    ),
    "java": Grammar(
        tree_sitter_java.language,
        _words("method_declaration constructor_declaration compact_constructor_declaration"),
        _words("class_declaration interface_declaration enum_declaration record_declaration")
        | _words("annotation_type_declaration"),
        passed=_words("enum_body_declarations"),
    ),
    "rust": Grammar(
        tree_sitter_rust.language,
        _words("function_item function_signature_item struct_item enum_item union_item macro_definition"),
        _words("impl_item trait_item mod_item"),
        passed=_words("foreign_mod_item declaration_list"),
    ),
    "c": Grammar(
        tree_sitter_c.language,
        _words("function_definition type_definition"),
        _words("struct_specifier union_specifier enum_specifier"),
        passed=_C_PASSED,
    ),
    "cpp": Grammar(
        tree_sitter_cpp.language,
        _words("function_definition type_definition"),
        _words("class_specifier struct_specifier union_specifier enum_specifier namespace_definition"),
        wrappers=_words("template_declaration"),
        passed=_C_PASSED,
    ),
    "csharp": Grammar(
        tree_sitter_c_sharp.language,
        _words("method_declaration constructor_declaration destructor_declaration delegate_declaration"),
        _words("class_declaration interface_declaration struct_declaration record_declaration enum_declaration")
        | _words("namespace_declaration"),
        passed=_words("preproc_if preproc_else preproc_elif preproc_region"),
    ),
}
