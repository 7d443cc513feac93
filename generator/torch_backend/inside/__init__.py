"""What `torch-backend` runs in other Pythons, see ``probe``: needs the standard library and torch, nothing else."""
