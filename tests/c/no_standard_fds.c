/* Started with some of descriptors 0 to 2 closed: they are the program's to fill, in order. In C,
 * because other runtimes fill them before main(). */
#include "talk.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>

static void say(const char *format, ...)
{
    char line[200];
    va_list args;
    int fd, len;
    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fd = open(getenv("SMC_TEST_TRANSCRIPT"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, len) != len || close(fd) != 0)
        abort();
}

static void *answer(void *arg)
{
    warm_server(*(int *)arg);
    put_stream(*(int *)arg, 3, 200000);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    char byte;
    int port, listener, client, server, ends[2];
    for (int fd = 0; fd < 3; fd++)
        say("%d open at start: %d\n", fd, fcntl(fd, F_GETFD) >= 0);
    listener = serve(&port);
    client = dial(port);
    server = accept(listener, NULL, NULL);
    say("listener %d, client %d, server %d\n", listener, client, server);
    pthread_create(&thread, NULL, answer, &server);
    warm_client(client);
    say("wrong bytes: %zu\n", wrong_bytes(client, 3, 200000));
    pthread_join(thread, NULL);
    say("close %d\n", close(client));
    say("end %zd\n", read(server, &byte, 1));
    say("close %d %d\n", close(server), close(listener));
    if (pipe(ends) == 0)
        say("pipe %d %d\n", ends[0], ends[1]);
    return 0;
}
