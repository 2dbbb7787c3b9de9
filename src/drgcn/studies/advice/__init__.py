"""What our own records say about data like yours."""
