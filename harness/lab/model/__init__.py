"""The modelled machine: an R640 with 20 RTX 8000 in two expansion chassis, a state function of a virtual clock."""
