"""Typed JSON: codecs, schemas, validation errors and secrets. Private to the contract."""
