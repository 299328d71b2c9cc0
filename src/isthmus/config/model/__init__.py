"""What can be set: one file a system."""
