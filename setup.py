"""The build. Everything that does not need code to be said is in pyproject.toml."""

from setuptools import setup

setup()
