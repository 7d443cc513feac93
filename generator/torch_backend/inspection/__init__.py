"""What is there: tools and packages that a build needs, and how far a project's port is."""
