"""The virtual lab: machines that behave like the real ones, in two grades, and the faults they can have."""
