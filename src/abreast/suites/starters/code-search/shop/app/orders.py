"""Turns baskets into orders."""

from app.catalogue import UnknownProduct
from app.pricing import delivery_cents, line_total


class OrderRefused(Exception):
    """The message is shown to the customer."""


class OrderBook:
    def __init__(self, catalogue, settings):
        self._catalogue, self._settings = catalogue, settings
        self._orders = []

    def place(self, basket):
        """Check a basket and record the order; returns the order number."""
        if not basket:
            raise OrderRefused("the basket is empty")
        try:
            lines = [(self._catalogue.lookup(number), quantity) for number, quantity in basket.items()]
        except UnknownProduct as error:
            raise OrderRefused(f"sorry: {error}") from error
        goods = sum(line_total(product, quantity) for product, quantity in lines)
        self._orders.append({"lines": lines, "cents": goods + delivery_cents(goods, self._settings)})
        return len(self._orders)

    def total_of(self, number):
        return self._orders[number - 1]["cents"]
