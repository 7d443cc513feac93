"""Adds a kernel for an operator to a project: a C++ file and a test. The operator leaves the list of emulated ones."""
