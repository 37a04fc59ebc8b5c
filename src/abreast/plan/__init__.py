"""The plan: trials, order, keys, what is already done."""
