/* A library whose constructor uses sockets, perhaps before ours has run. What it opened there the
 * program goes on using: the numbers are in EARLY_FDS. */
#include "talk.h"

__attribute__((constructor)) static void early(void)
{
    char buf[64], numbers[64];
    int port, listener, client, server;
    if (getenv("EARLY_FDS") || !getenv("SMC_TEST_EARLY"))
        return; /* a wrapper's image, or one of its children */
    listener = serve(&port);
    client = dial(port);
    server = accept(listener, NULL, NULL);
    MUST(server >= 0);
    put(client, "early", 5);
    MUST(get(server, buf, 5) == 5 && memcmp(buf, "early", 5) == 0);
    put(server, "indeed", 6);
    MUST(get(client, buf, 6) == 6 && memcmp(buf, "indeed", 6) == 0);
    MUST(close(listener) == 0);
    snprintf(numbers, sizeof numbers, "%d %d", client, server);
    MUST(setenv("EARLY_FDS", numbers, 1) == 0);
}
