"""The JSON Schema of a line of results.jsonl (draft 2020-12), for programs that read records without this package.

It lies beside this module as ``results.schema.json``. Kinds of lines and keys may be added within a version; the version grows
when somebody who knows the older one would misread the newer.
"""

from __future__ import annotations

from importlib.resources import files


def schema_text() -> str:
    """The schema as it is printed and packaged."""
    return files("harness.record").joinpath("results.schema.json").read_text("utf-8")
