"""What is done to a machine, stage by stage, and what came of it."""
