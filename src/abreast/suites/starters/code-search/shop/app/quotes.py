"""Quote letters for business customers."""

from app.pricing import line_total


def quote_letter(product, quantity):
    amount = line_total(product, quantity) / 100
    return f"We offer {quantity} × {product.title} for {amount:.2f} EUR."
