"""The suite of adapters into the agents of other frameworks."""
