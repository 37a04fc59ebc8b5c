"""Prices and delivery fees."""

BULK_QUANTITY = 10
BULK_DISCOUNT_PERCENT = 15


def line_total(product, quantity):
    """The price of one line of an order, in cents."""
    total = product.cents * quantity
    if quantity >= BULK_QUANTITY:
        total -= total * BULK_DISCOUNT_PERCENT // 100
    return total


def delivery_cents(goods_cents, settings):
    """The delivery fee in cents; free above a certain amount."""
    if goods_cents >= settings["free_delivery_above"] * 100:
        return 0
    return round(settings["delivery_fee"] * 100)
