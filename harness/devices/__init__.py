"""What a device says, as frozen facts, and how to ask for it."""
