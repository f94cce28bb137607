"""The simulated iDRAC: one Redfish application, used in process by the model and served over TLS for other clients."""
