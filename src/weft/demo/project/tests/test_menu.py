import unittest

from shop.menu import MENU


class MenuTest(unittest.TestCase):
    def test_there_is_coffee_and_nothing_is_free(self) -> None:
        self.assertIn("coffee", MENU)
        self.assertTrue(all(price > 0 for price in MENU.values()))
