"""Ships with the package, for the demo and for tests: stand-ins for systems that cannot be had for free."""
