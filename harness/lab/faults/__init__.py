"""The faults of the virtual lab, as data: one module for each part of the machine that can be wrong."""
