"""What there is to buy, each with its price in cents."""

MENU = {
    "coffee": 280,
}
