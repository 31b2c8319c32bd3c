"""Spark jobs that are citizens of consumer groups: ``.format("kohort")``, its sessions and its pipelines.

Imports nothing heavy: Spark's helper processes import this package, and so does whoever only wants its words.
"""
