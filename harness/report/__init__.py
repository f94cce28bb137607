"""Renderings of a record; each is a pure function of it."""
