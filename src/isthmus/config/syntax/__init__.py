"""The configuration file as text: properties, environment, references."""
