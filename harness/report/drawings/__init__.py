"""Drawings of a record's exhibits: SVG inside the page, in the page's own colours, with a shape or a glyph beside every colour."""
