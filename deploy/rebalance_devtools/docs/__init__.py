"""Generators of documentation pages: `make docs` writes the pages, tests verify that they are up to date."""
