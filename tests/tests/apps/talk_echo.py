"""Talks to an echo server over several connections, one after the other, and checks what comes back."""

import random
import socket
import sys

source = random.Random(11)
right = 0
for _ in range(3):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        for _ in range(40):
            body = source.randbytes(source.choice([1, 100, 5000, 60_000]))
            connection.sendall(body)
            back = b""
            while len(back) < len(body):
                back += connection.recv(65536)
            if back != body:
                sys.exit("what came back is wrong")
            right += 1
print(right, "answers are right")
