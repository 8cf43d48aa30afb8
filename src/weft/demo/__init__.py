"""The demo: a small project, a plan in which much goes wrong, and the promises of that plan."""
