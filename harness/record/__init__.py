"""The record of a run: results.jsonl, append-only, the truth that every output renders."""
