"""The example that comes with Toolstile: `toolstile run --example`."""
