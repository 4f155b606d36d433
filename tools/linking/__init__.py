"""Finds where the links of the README and the documentation lead, and those that lead nowhere."""
