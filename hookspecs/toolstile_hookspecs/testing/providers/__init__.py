"""Strict fakes of providers, for tests of adapters."""
