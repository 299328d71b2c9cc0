"""Which keys there are, and whether what they are set to can work."""
