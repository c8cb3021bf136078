"""Posts bodies of many sizes, over one connection and over many, and checks each answer."""

import http.client
import random
import sys

port = int(sys.argv[1])
source = random.Random(7)
right = 0


def exchange(connection, size):
    global right
    body = source.randbytes(size)
    connection.request("POST", "/", body)
    answer = connection.getresponse().read()
    if answer != body[::-1]:
        sys.exit(f"an answer of {len(answer)} bytes to {size} bytes is wrong")
    right += 1


kept = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
for number in range(100):
    exchange(kept, source.choice([0, 1, 100, 1000, 10_000, 100_000, 1_000_000]))
kept.close()
for number in range(20):
    short = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    exchange(short, 1000)
    short.close()
print(right, "answers are right")
