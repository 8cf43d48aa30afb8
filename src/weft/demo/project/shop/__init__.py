"""A small shop: what it sells, what a basket costs, and the receipt."""
