"""The report as one HTML page: `html` assembles it, `listing` and `answers` provide its cases."""
