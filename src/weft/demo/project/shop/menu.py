"""The goods of the shop, with their prices in cents."""

MENU = {
    "coffee": 280,
}
