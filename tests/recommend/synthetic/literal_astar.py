"""The drawing of ``astar`` word for word, with loops and Python's unlimited integers."""

from __future__ import annotations

import bisect

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def finalise(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def splitmix(key, count):
    """The generator as published: a state that grows by the golden ratio."""
    state, out = key, []
    for _ in range(count):
        state = (state + GOLDEN) & MASK
        out.append(finalise(state))
    return out


def nth(key, n):
    return finalise((key + (n + 1) * GOLDEN) & MASK)


def key_of(seed, *path):
    key = finalise(seed & MASK)
    for step in path:
        key = finalise((key + (step + 1) * GOLDEN) & MASK)
    return key


def as_signed(z):
    return z - 2**64 if z >= 2**63 else z


def order_of(key, count):
    """Numbers by ascending hash, hashes read as signed."""
    return sorted(range(count), key=lambda n: as_signed(nth(key, n)))


class Literal:
    """Clicks and tastes user by user. Topic sizes, degrees and tables are handed in."""

    def __init__(self, parameters, seed, topic_sizes, at_least, knots, day_ends):
        self.p, self.seed, self.sizes = parameters, seed, topic_sizes
        self.knots, self.day_ends = knots, day_ends
        self.items = sum(topic_sizes)
        self.starts = [sum(topic_sizes[:t]) for t in range(len(topic_sizes) + 1)]
        self.item_at = order_of(key_of(seed, 1), self.items)
        rising = order_of(key_of(seed, 3), len(topic_sizes))
        self.rising = sorted(rising[: max(1, len(topic_sizes) // parameters.rising_topics)])
        users = at_least[0]
        ascending = []
        for d, more in enumerate([*at_least[1:], 0], start=1):
            ascending += [d] * (at_least[d - 1] - more)
        self.degree = [0] * users
        for rank, user in enumerate(order_of(key_of(seed, 0), users)):
            self.degree[user] = ascending[rank]

    def topic_at(self, place):
        return bisect.bisect_right(self.starts, place) - 1

    def tastes(self, user):
        topics = []
        for number in range(4):
            bits = nth(key_of(self.seed, 2, number), user) >> 32
            if number < 3:
                topic = self.topic_at((bits * self.items) >> 32)
            else:
                topic = self.rising[(bits * len(self.rising)) >> 32]
            while topic in topics:
                topic = (topic + 1) % len(self.sizes)
            topics.append(topic)
        return topics, nth(key_of(self.seed, 4), user) >> (64 - self.p.latent_bits)

    def item_latents(self, place):
        return nth(key_of(self.seed, 5), place) >> (64 - self.p.latent_bits)

    def divide(self, user, topics):
        """Each click stands on a ring of 65,536 points; the shares are arcs of it."""
        degree = self.degree[user]
        turn = nth(key_of(self.seed, 6), user) >> 48
        ends = [end * 1024 for end in self.p.share_ends]
        counts = [0] * 5
        for s in range(degree):
            group = next((g for g, end in enumerate(ends) if s * 65536 + turn < end * degree), 4)
            counts[group] += 1
        for g, topic in enumerate(topics):
            over = max(0, counts[g] - self.sizes[topic] // 2)
            counts[g] -= over
            counts[4] += over
        return counts

    def clicks(self, user):
        """Pairs of item and day, by item."""
        click = sum(self.degree[:user])
        topics, latents = self.tastes(user)
        own = {
            place
            for t in topics
            for place in range(self.starts[t], self.starts[t] + self.sizes[t])
        }
        found = []
        for group, count in enumerate(self.divide(user, topics)):
            if group < 4:
                start = self.starts[topics[group]]
                places = list(range(start, start + self.sizes[topics[group]]))
            else:
                places = [place for place in range(self.items) if place not in own]
            last = -1
            for j in range(count):
                rank = self.choose(click, j, count, places, latents, group == 4)
                last = max(rank, last + 1)
                assert last <= len(places) - count + j
                found.append((self.item_at[places[last]], self.day(click, group == 3)))
                click += 1
        return sorted(found)

    def choose(self, click, j, count, places, latents, rest):
        best, best_score = None, None
        for c in range(self.p.candidates):
            bits = nth(key_of(self.seed, 7), click * self.p.candidates + c)
            point = (j * 2**32 + (bits >> 32)) // count
            if rest:
                return (point // 2 * len(places)) >> 31
            cell, within = divmod(point, 2**20)
            low, high = self.knots[cell], self.knots[cell + 1]
            rank = ((low + ((high - low) * within >> 20)) * len(places)) >> 31
            differ = (self.item_latents(places[rank]) ^ latents).bit_count()
            score = (self.p.latent_bits - differ) * self.p.latent_weight + (bits & 0xFFFF)
            if best is None or score > best_score:
                best, best_score = rank, score
        return best

    def day(self, click, rising):
        bits = nth(key_of(self.seed, 8), click) >> 32
        ends = self.day_ends[self.p.days :] if rising else self.day_ends[: self.p.days]
        return bisect.bisect_right([end - (2**32 if rising else 0) for end in ends], bits)

    def number(self, stream, column, j, node, topic, latents, values):
        bits = nth(key_of(self.seed, stream, j), node)
        if bits >> 48 < column.missing:
            return None
        level = sum((bits >> shift) & 0xFFFF for shift in (0, 16, 32)) - 98_302
        if column.carries == "latent":
            shift = round(self.p.latent_signal * 2**15)
            level += shift if latents >> column.factor & 1 else -shift
        if column.carries == "topic":
            height = (nth(key_of(self.seed, 9, j), topic) >> 48) - 2**15
            level += height * round(self.p.topic_signal * 2**15) >> 15
        return values[(level + 2**17) // 4]

    def category(self, stream, column, j, node, true):
        bits = nth(key_of(self.seed, stream, j), node)
        if bits >> 48 < column.missing:
            return -1
        low = bits & 0xFFFFFFFF
        if column.carries == "nothing":
            return ((low // 2) ** 2 // 2**31 * column.size) >> 31
        return true if bits >> 32 & 0xFFFF < column.fidelity else low * column.size >> 32
