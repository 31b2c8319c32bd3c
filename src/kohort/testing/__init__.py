"""Shipped with the package: what tests of consumer applications need."""
