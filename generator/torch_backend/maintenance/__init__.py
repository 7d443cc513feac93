"""Work on the template itself: its example, checks, and what is generated for it."""
