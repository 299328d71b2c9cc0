"""Configurations of other bridges, turned into ours."""
