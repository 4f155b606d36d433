"""A workspace on disk: staged, journalled and committed by renames."""
