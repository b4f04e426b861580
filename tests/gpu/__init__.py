"""What only a GPU can tell, in one run of a few minutes: `python -m tests.gpu`."""
