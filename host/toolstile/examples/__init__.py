"""The example that comes with Toolyard: `toolyard run --example`."""
