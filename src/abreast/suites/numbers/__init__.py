"""Suite `numbers`: does a data transform help a model read numbers?"""
