"""Replays of methods on recorded results, and the papers' experiments."""
