"""The state of a session: slices, branches, snapshots."""
