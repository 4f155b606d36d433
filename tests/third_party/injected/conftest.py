"""The README's commands are for the source tree: no page of the documentation."""

collect_ignore = ["README.md"]
