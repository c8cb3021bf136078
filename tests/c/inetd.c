/* A server in the manner of inetd, and its client:
 *
 *   inetd CONVERSATION server PROGRAM [ARGUMENT…]
 *   inetd CONVERSATION client PORT [PROGRAM …]
 *
 * The server puts the connection on the standard descriptors of a child, which becomes the program,
 * by the call that HOW in the environment names. The client says what comes back. With COLD in the
 * environment nothing goes over the connection before, and the child of an inetd is the first. */
#include "talk.h"
#include <fcntl.h>
#include <libgen.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

enum { LINES = 20, BULK = 3000000 };

extern char **environ;

static void become(const char *how, char **program)
{
    if (strcmp(how, "fexecve") == 0) {
        fexecve(open(program[0], O_RDONLY | O_CLOEXEC), program, environ);
    } else if (strcmp(how, "memfd") == 0) {
        int from = open(program[0], O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
        while (sendfile(to, from, NULL, 1 << 20) > 0)
            ;
        close(from);
        fexecve(to, program, environ);
    } else if (strcmp(how, "execveat") == 0) {
        int folder = open(dirname(strdup(program[0])), O_PATH | O_DIRECTORY | O_CLOEXEC);
        execveat(folder, basename(strdup(program[0])), program, environ, 0);
    } else if (strcmp(how, "by descriptor") == 0) {
        execveat(open(program[0], O_PATH | O_CLOEXEC), "", program, environ, AT_EMPTY_PATH);
    } else if (strcmp(how, "no new privileges") == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        execv(program[0], program);
    } else if (strcmp(how, "tried before") == 0) {
        /* A file that is no program at all: the process goes on. */
        char *other[] = {program[1], NULL};
        execv(other[0], other);
        dprintf(1, "not run: %s\n", strerrorname_np(errno));
        execv(program[0], other);
    } else {
        execv(program[0], program);
    }
}

static void serve_one(char **program)
{
    int listener = serve_announced();
    int fd = accept(listener, NULL, NULL);
    MUST(fd > 2);
    close(listener);
    if (!getenv("COLD"))
        warm_server(fd);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        for (int to = 0; to <= 2; to++)
            MUST(dup2(fd, to) == to);
        close(fd);
        become(getenv("HOW") ? getenv("HOW") : "", program);
        _exit(127);
    }
    close(fd);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        printf("child: signal %d\n", WTERMSIG(status));
    else
        printf("child: exit %d\n", WEXITSTATUS(status));
}

/* Prints what comes up to the end of a line; false: the stream has ended. */
static int one_line(int fd)
{
    char byte;
    ssize_t n;
    while ((n = read(fd, &byte, 1)) == 1) {
        putchar(byte);
        if (byte == '\n')
            return 1;
    }
    if (n < 0)
        printf("error: %s\n", strerror(errno));
    return 0;
}

/* A line is sent when the one before has been answered. */
static void lines(int fd)
{
    char line[64];
    for (int n = 0; n < LINES; n++) {
        sprintf(line, "line %d of many\n", n);
        put(fd, line, strlen(line));
        if (!one_line(fd))
            return;
    }
}

/* So much is sent, and comes back. */
static void bulk(int fd)
{
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        put_stream(fd, 7, BULK);
        shutdown(fd, SHUT_WR);
        exit(0);
    }
    printf("wrong: %zu\n", wrong_bytes(fd, 7, BULK));
    MUST(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[2], "server") == 0) {
        serve_one(argv + 3);
        return 0;
    }
    int fd = dial(atoi(argv[3]));
    if (!getenv("COLD"))
        warm_client(fd);
    if (strcmp(argv[1], "lines") == 0)
        lines(fd);
    if (strcmp(argv[1], "bulk") == 0)
        bulk(fd);
    if (strcmp(argv[1], "listens") != 0)
        shutdown(fd, SHUT_WR);
    while (one_line(fd))
        ;
    puts("end");
    return 0;
}
