/* A vfork child runs in its parent's memory: what it does to its descriptors must not reach what
 * the parent knows of them. */
#include "talk.h"
#include <fcntl.h>
#include <sys/wait.h>

extern char **environ;

/* Each way in which children get rid of inherited descriptors. */
static void spawn(int fd, int way)
{
    static char *const args[] = {"true", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int status = 0;
    MUST(null >= 0);
    pid_t pid = vfork();
    if (pid == 0) {
        switch (way) {
        case 0:
            close(fd);
            break;
        case 1:
            dup2(null, fd);
            break;
        case 2:
            close_range(3, ~0u, 0);
            break;
        case 3:
            for (int i = 3; i < 300; i++)
                close(i);
            break;
        case 4:
            dup2(fd, 0);
            dup2(fd, 1);
            close(fd);
            break;
        case 5:
            fcntl(fd, F_SETFD, 0);
            break;
        case 6:
            close(fd);
            _exit(5);
        }
        execve("/bin/true", args, environ);
        _exit(127);
    }
    MUST(pid > 0);
    MUST(waitpid(pid, &status, 0) == pid);
    printf("way %d: %s %d\n", way, WIFEXITED(status) ? "exit" : "signal",
           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    fflush(stdout);
    MUST(close(null) == 0);
}

int main(int argc, char **argv)
{
    int server, fd;
    char byte;
    MUST(argc >= 3);
    server = strcmp(argv[2], "server") == 0;
    if (server) {
        int listener = serve_announced();
        fd = accept(listener, NULL, NULL);
        MUST(fd >= 0);
    } else {
        fd = dial(atoi(argv[3]));
    }
    for (int way = 0; way < 7; way++) {
        spawn(fd, way);
        if (server)
            warm_server(fd);
        else
            warm_client(fd);
        printf("talked\n");
        fflush(stdout);
    }
    if (server)
        printf("end: %zd\n", read(fd, &byte, 1));
    MUST(close(fd) == 0);
    return 0;
}
