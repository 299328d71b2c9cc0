"""Ships with the package, for the demo and for tests: other systems, and stand-ins for those not free."""
