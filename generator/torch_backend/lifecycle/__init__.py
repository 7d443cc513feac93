"""Creates projects, updates them to later versions of the template, and adds and removes features."""
