"""Checks of an installation: the output of `toolstile doctor`."""
