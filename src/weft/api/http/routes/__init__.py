"""The routes, by subject: each a plain function that names an operation."""
