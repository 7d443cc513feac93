"""Adds a kernel for an operator to a project: a C++ file, lines in the list of operators, and a test."""
