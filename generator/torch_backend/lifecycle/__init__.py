"""A project's life: it is made, updated from later versions of the template, and gains and loses features."""
