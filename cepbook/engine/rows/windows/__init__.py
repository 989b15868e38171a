"""One module per data window, named as in EPL."""
