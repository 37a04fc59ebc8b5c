"""The report as one HTML page: `html` puts it together, `listing` and `answers` are its cases."""
