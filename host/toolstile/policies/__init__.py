"""The policy engine: asks every policy, combines their decisions, admits, approves."""
