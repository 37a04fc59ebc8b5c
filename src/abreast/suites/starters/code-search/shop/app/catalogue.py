"""The products on sale."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    number: str
    title: str
    cents: int
    weight_grams: int = 0


class UnknownProduct(Exception):
    """No product has this number."""


class Catalogue:
    def __init__(self, products):
        self._by_number = {product.number: product for product in products}

    def lookup(self, number):
        try:
            return self._by_number[number]
        except KeyError:
            raise UnknownProduct(f"no product has the number {number}") from None

    def matching(self, words):
        wanted = [word.lower() for word in words.split()]
        return [product for product in self._by_number.values() if all(w in product.title.lower() for w in wanted)]
