"""The texts of nodes, and features made from them."""
