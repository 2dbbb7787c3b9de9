"""Floyd's algorithm for distinct draws, one row at a time, with sets."""


def floyd(begin, degree, chances):
    """Places of the entries drawn for one row, in the order in which they are drawn."""
    count = len(chances)
    if degree <= count:
        return [begin + i for i in range(degree)]
    drawn = []
    for chance, last in zip(chances, range(degree - count, degree), strict=True):
        guess = int(chance * (last + 1))
        drawn.append(last if guess in set(drawn) else guess)
    return [begin + guess for guess in drawn]
