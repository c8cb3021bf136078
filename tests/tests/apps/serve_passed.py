"""An echo server whose parent accepts and passes each connection to a worker, by send_fds or by
multiprocessing."""

import multiprocessing
import multiprocessing.reduction
import os
import signal
import socket
import sys


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()


def worker_of_fds(channel):
    while True:
        data, fds, _flags, _address = socket.recv_fds(channel, 1, 1)
        if not data:
            return
        echo(socket.socket(fileno=fds[0]))


def worker_of_pipe(pipe):
    try:
        while True:
            echo(pipe.recv())
    except EOFError:
        pass


def main():
    port, how = int(sys.argv[1]), sys.argv[2]
    listener = socket.create_server(("127.0.0.1", port))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if how == "fds":
        here, there = socket.socketpair()
        if os.fork() == 0:
            here.close()
            listener.close()
            worker_of_fds(there)
            sys.exit(0)
        there.close()
        send = lambda connection: socket.send_fds(here, [b"x"], [connection.fileno()])
    else:
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        context.Process(target=worker_of_pipe, args=(there,), daemon=True).start()
        send = here.send
    while True:
        connection, _ = listener.accept()
        send(connection)
        connection.close()


if __name__ == "__main__":
    main()
