"""What the installed torch says of an operator. Runs in the project's interpreter, which need not have this package.

``python -m schemas [--no-samples] OPERATOR...``, with the folder above on the path, prints a JSON object: for each
operator that was asked for either a description of it or a sentence on why it cannot have a kernel. Only torch and the
standard library are imported here, and torchgen, which is part of torch and wants PyYAML.
"""
