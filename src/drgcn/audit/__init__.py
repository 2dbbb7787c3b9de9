"""What lies under a dataset's features: the texts of its nodes, and features made from them."""
