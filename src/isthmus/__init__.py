"""Isthmus."""
