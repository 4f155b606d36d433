"""The examples of `toolstile run --example`."""
