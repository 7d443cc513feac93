"""Gives a project a kernel for an operator: a C++ file, its lines in the list of operators, and a test."""
