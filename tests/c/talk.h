/* The two halves of a conversation for the C cases, as the Rust ones have them in the harness:
 * a warm-up long enough for a connection to be accelerated, and checksummed streams. */
#ifndef TALK_H
#define TALK_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno));        \
            exit(101);                                                                             \
        }                                                                                          \
    } while (0)

enum { TURNS = 12, TURN = 200 };

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

/* A listener on a port of the kernel's choice. */
static inline int serve(int *port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    MUST(fd >= 0);
    MUST(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    MUST(listen(fd, 16) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Listens and tells the harness where. */
static inline int serve_announced(void)
{
    int port;
    int fd = serve(&port);
    printf("@port %d\n", port);
    fflush(stdout);
    return fd;
}

static inline int dial(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = loopback(port);
    MUST(fd >= 0);
    MUST(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static inline void put(int fd, const void *data, size_t len)
{
    const char *at = (const char *)data;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        MUST(n > 0);
        at += n;
        len -= n;
    }
}

/* Reads until the buffer is full or the stream ends. */
static inline size_t get(int fd, void *data, size_t len)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = read(fd, (char *)data + have, len - have);
        MUST(n >= 0);
        if (n == 0)
            break;
        have += n;
    }
    return have;
}

static inline void warm_client(int fd)
{
    unsigned char buf[TURN];
    for (int turn = 0; turn < TURNS; turn++) {
        memset(buf, turn, TURN);
        put(fd, buf, TURN);
        MUST(get(fd, buf, TURN) == TURN);
        MUST(buf[0] == (turn | 0x80) && buf[TURN - 1] == (turn | 0x80));
    }
}

static inline void warm_server(int fd)
{
    unsigned char buf[TURN];
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(get(fd, buf, TURN) == TURN);
        MUST(buf[0] == turn && buf[TURN - 1] == turn);
        memset(buf, turn | 0x80, TURN);
        put(fd, buf, TURN);
    }
}

static inline unsigned char next_byte(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 24;
}

/* Sends `len` bytes of the stream `seed`. */
static inline void put_stream(int fd, uint32_t seed, size_t len)
{
    unsigned char buf[5000];
    while (len > 0) {
        size_t part = len < sizeof buf ? len : sizeof buf;
        for (size_t i = 0; i < part; i++)
            buf[i] = next_byte(&seed);
        put(fd, buf, part);
        len -= part;
    }
}

/* Receives `len` bytes and counts those that are not of the stream `seed`. */
static inline size_t wrong_bytes(int fd, uint32_t seed, size_t len)
{
    unsigned char buf[7000];
    size_t wrong = 0;
    while (len > 0) {
        size_t part = len < sizeof buf ? len : sizeof buf;
        MUST(get(fd, buf, part) == part);
        for (size_t i = 0; i < part; i++)
            wrong += buf[i] != next_byte(&seed);
        len -= part;
    }
    return wrong;
}

#endif
