"""The live adapters: one vendor library each, mapped to ports and to the errors of the harness."""
