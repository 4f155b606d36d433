"""The codecs of tools' values, and functions of hosts and plugins around them.

`tool.params_codec` and `tool.result_codec` are each a `ValueCodec`: a `Codec` where a Python type
stands for the values, a `SchemaCodec` where a JSON Schema does.
"""

# ruff: noqa: PLC0414 - each name is public, which `X as X` says

from toolstile_hookspecs._schema.codec import (
    NOT_READ_BACK as NOT_READ_BACK,
    Codec as Codec,
    ValueCodec as ValueCodec,
)
from toolstile_hookspecs._schema.core_schema import (
    is_immutable_type as is_immutable_type,
    may_lose as may_lose,
)
from toolstile_hookspecs._schema.json_schema import (
    alternatives as alternatives,
    bounded_validator as bounded_validator,
    check_schema as check_schema,
    is_bounded as is_bounded,
    of_item as of_item,
    pointed as pointed,
    schemas_among as schemas_among,
)
from toolstile_hookspecs._schema.portable import (
    OF_FILE as OF_FILE,
    PortableValues as PortableValues,
    difference as difference,
    dumped as dumped,
    dumped_exactly as dumped_exactly,
    found_at as found_at,
    imported_from as imported_from,
    loaded as loaded,
    place_of as place_of,
    type_name as type_name,
    why_not_written as why_not_written,
)
from toolstile_hookspecs._schema.schema_codec import (
    SchemaCodec as SchemaCodec,
    Unchecked as Unchecked,
)
from toolstile_hookspecs._schema.secrets import (
    HIDING as HIDING,
    MASK as MASK,
    hide as hide,
    hide_within as hide_within,
    masked as masked,
    secrets_in as secrets_in,
    secrets_of as secrets_of,
)
from toolstile_hookspecs._schema.serialize import (
    as_json as as_json,
    encodable as encodable,
    finite as finite,
    why_unwritable as why_unwritable,
)
from toolstile_hookspecs._schema.validation_errors import (
    RETRY as RETRY,
    as_sentence as as_sentence,
    first_fault as first_fault,
    in_one_line as in_one_line,
    place as place,
    shorten as shorten,
)
