"""`retrieval`: which files, symbols, lines and quotations an answer claims, and which of them are right."""
