"""Recordings: the format, recording, replaying, redacting and checking them.

recorder ─▶ events ─▶ lines ─▶ format (header, tracks, bodies) ─▶ library (in its place, whole)
   │ redact                       │
   └─▶ evidence                   └─▶ player: script (writes), timeline (reads, streams)      scan (is it clean)
"""
