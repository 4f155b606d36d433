"""Signatures and params of tool functions. Private to the contract."""
