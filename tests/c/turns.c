/* A plain C client and server, built in unusual ways: static, with AddressSanitizer. */
#include "talk.h"

enum { BULK = 300000 };

int main(int argc, char **argv)
{
    char byte;
    MUST(argc >= 3);
    if (strcmp(argv[2], "server") == 0) {
        int listener = serve_announced();
        int fd = accept(listener, NULL, NULL);
        MUST(fd >= 0);
        warm_server(fd);
        printf("wrong bytes: %zu\n", wrong_bytes(fd, 1, BULK));
        put_stream(fd, 2, BULK);
        printf("end: %zd\n", read(fd, &byte, 1));
        MUST(close(fd) == 0);
    } else {
        int fd = dial(atoi(argv[3]));
        warm_client(fd);
        put_stream(fd, 1, BULK);
        printf("wrong bytes: %zu\n", wrong_bytes(fd, 2, BULK));
        MUST(close(fd) == 0);
    }
    return 0;
}
