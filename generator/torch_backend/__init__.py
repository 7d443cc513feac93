"""Renders, checks and maintains PyTorch accelerator backends from the template in this repository."""

__version__ = "0.1.0"
