"""The stores that come with the ledger."""
