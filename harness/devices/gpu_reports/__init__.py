"""Results of GPU tests that other programs wrote, read into frozen facts: one module a format."""
