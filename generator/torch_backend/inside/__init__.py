"""What runs in the Python that `torch-backend` asks, see ``interpreter``: needs torch and the standard library."""
