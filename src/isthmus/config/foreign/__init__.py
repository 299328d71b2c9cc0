"""Configurations of other bridges: recognised, and turned into ours."""
