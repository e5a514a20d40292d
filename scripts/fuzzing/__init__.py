"""Damage to releases, an independent reader to judge by, and processes that may die of it. See ``scripts/fuzz.py``."""
