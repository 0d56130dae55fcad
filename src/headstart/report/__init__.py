"""Plots and pages of what was found."""
