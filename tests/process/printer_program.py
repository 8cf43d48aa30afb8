"""An agent that prints numbered lines in bursts, the last line without a newline."""

from __future__ import annotations

import os
import random
import sys
import time


def main(count: int) -> None:
    chance = random.Random(count)
    number = 0
    while number < count:
        burst = range(number, min(count, number + chance.randrange(1, 60)))
        text = "".join(f"line {n} {'x' * chance.randrange(200)}\n" for n in burst)
        data = text.encode()
        middle = chance.randrange(len(data))  # a reader will find half lines
        os.write(1, data[:middle])
        os.write(1, data[middle:])
        number = burst.stop
        time.sleep(chance.random() * 0.02)
    os.write(1, b"the end")


if __name__ == "__main__":
    main(int(sys.argv[2]))
