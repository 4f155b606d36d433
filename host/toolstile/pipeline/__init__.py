"""The stages of a call, written once, and the two drivers that carry them out."""
