"""Tables, pictures and pages made from run records."""
