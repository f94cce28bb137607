"""Why a machine does not see its GPUs, told from what somebody mailed: pure functions from a Picture to diagnoses."""
