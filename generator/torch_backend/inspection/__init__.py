"""Inspects a machine and a project: requirements of a build, progress of a port, states of operators."""
