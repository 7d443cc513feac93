"""Modules that run in the project's Python, see ``interpreter``. They need torch and the standard library."""
