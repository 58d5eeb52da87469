"""Pages of docs that are made from the code: `make docs` writes them, tests hold them to it."""
