"""Recordings: the format, recording, replaying, redacting and checking them."""
