"""What runs on the machine under test: prints JSON lines, imports nothing from the rest of the harness, Python 3.6."""
