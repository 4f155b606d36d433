"""Drivers carry out the steps of the pipeline, sync or async."""
