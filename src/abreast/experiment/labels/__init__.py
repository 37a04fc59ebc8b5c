"""Human labels: a blind sample of the answers that a judge scored, and its spreadsheet."""
