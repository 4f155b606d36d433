"""The policy engine: asks every policy, combines what they say, admits, approves."""
