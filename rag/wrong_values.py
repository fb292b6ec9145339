"""What is wrong with a value, in our words for what the validator finds; none of them repeats the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is no field there is; leave it out",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "decimal_type": "must be a number",
    "decimal_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} decimal places",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "frozen_set_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be {ge:g} or more",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be {le:g} or less",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be of the form {pattern}",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
}


def words(error: Mapping[str, Any]) -> str:
    """What follows "it" in a sentence about the value, from one of the validator's errors."""
    if error["type"] in WORDS:
        return WORDS[error["type"]].format(**error.get("ctx", {}))
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
