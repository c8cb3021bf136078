/* A handler that jumps out of a call that waits, as programs with old-fashioned time limits do: the
 * connection still works, and its end reaches the peer. */
#include "talk.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static void soon(void)
{
    struct itimerval once = {.it_value = {.tv_usec = 60000}};
    MUST(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

int main(int argc, char **argv)
{
    char byte = 0;
    MUST(argc >= 3);
    if (strcmp(argv[2], "server") == 0) {
        int listener = serve_announced();
        int fd = accept(listener, NULL, NULL);
        int other = accept(listener, NULL, NULL);
        MUST(fd >= 0 && other >= 0);
        warm_server(fd);
        for (int way = 0; way < 6; way++) {
            MUST(read(fd, &byte, 1) == 1);
            byte++;
            MUST(write(fd, &byte, 1) == 1);
        }
        printf("end: %zd\n", read(fd, &byte, 1));
        MUST(write(other, "e", 1) == 1);
        MUST(close(fd) == 0);
        return 0;
    }
    signal(SIGALRM, jump);
    int fd = dial(atoi(argv[3]));
    int other = dial(atoi(argv[3]));
    warm_client(fd);
    for (volatile int way = 0; way < 6; way++) {
        if (sigsetjmp(back, 1) == 0) {
            struct pollfd one = {.fd = fd, .events = POLLIN};
            soon();
            if (way % 2)
                poll(&one, 1, -1);
            else
                (void)!read(fd, &byte, 1);
            printf("way %d: not interrupted\n", way);
        } else {
            printf("way %d: jumped\n", way);
        }
        byte = 'a' + way;
        MUST(write(fd, &byte, 1) == 1);
        MUST(read(fd, &byte, 1) == 1);
        printf("answer %c\n", byte);
    }
    fflush(stdout);
    MUST(close(fd) == 0);
    /* The peer sees it while this process lives. */
    MUST(read(other, &byte, 1) == 1 && byte == 'e');
    return 0;
}
