"""Allows `python -m torch_backend`."""

from .cli import main

main()
