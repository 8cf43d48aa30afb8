"""The routes, by what they are about: each a plain function that names an operation."""
