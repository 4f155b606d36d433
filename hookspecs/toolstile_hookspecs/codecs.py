"""The codecs of tools' values, and what hosts and plugins share of reading and writing them.

`tool.params_codec` and `tool.result_codec` are each a `ValueCodec`: a `Codec` where a Python type
stands for the values, a `SchemaCodec` where a JSON Schema does.
"""

from __future__ import annotations

from toolstile_hookspecs._schema.codec import NOT_READ_BACK, Codec, ValueCodec
from toolstile_hookspecs._schema.core_schema import (
    is_immutable_type,
    may_lose,
)
from toolstile_hookspecs._schema.navigation import pointed
from toolstile_hookspecs._schema.schema_codec import SchemaCodec, Unchecked
from toolstile_hookspecs._schema.secrets import (
    HIDING,
    MASK,
    hide,
    hide_within,
    masked,
    secrets_in,
    secrets_of,
)
from toolstile_hookspecs._schema.serialize import as_json, encodable, finite, why_unwritable
from toolstile_hookspecs._schema.validation_errors import (
    RETRY,
    as_sentence,
    first_fault,
    in_one_line,
    place,
    shorten,
)

__all__ = [
    "HIDING",
    "MASK",
    "NOT_READ_BACK",
    "RETRY",
    "Codec",
    "SchemaCodec",
    "Unchecked",
    "ValueCodec",
    "as_json",
    "as_sentence",
    "encodable",
    "finite",
    "first_fault",
    "hide",
    "hide_within",
    "in_one_line",
    "is_immutable_type",
    "masked",
    "may_lose",
    "place",
    "pointed",
    "secrets_in",
    "secrets_of",
    "shorten",
    "why_unwritable",
]
