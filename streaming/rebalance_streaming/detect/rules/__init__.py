"""The catalogue's diagnoses as pure functions, one module per family; `registry` lists them."""
