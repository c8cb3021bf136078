/* Dispositions of signals, by every function that sets one: what a program is told of them, which
 * handlers run, which calls they interrupt, and that a child in the parent's memory changes its own
 * alone. */
#include "talk.h"
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern char **environ;
typedef void (*handler_t)(int);
extern handler_t __sysv_signal(int, handler_t);
extern handler_t ssignal(int, handler_t);
extern handler_t bsd_signal(int, handler_t);

static volatile sig_atomic_t ran[2];

static void first(int signal)
{
    (void)signal;
    ran[0]++;
}

static void second(int signal)
{
    (void)signal;
    ran[1]++;
}

static const char *name(handler_t handler)
{
    return handler == SIG_DFL   ? "default"
           : handler == SIG_IGN ? "ignored"
           : handler == SIG_ERR ? "error"
           : handler == first   ? "first"
           : handler == second  ? "second"
                                : "another";
}

static void tell(const char *what, handler_t old)
{
    struct sigaction now;
    MUST(sigaction(SIGUSR1, NULL, &now) == 0);
    printf("%s: was %s, is %s, flags %x, masks itself %d, ran %d %d\n", what, name(old),
           name(now.sa_handler), now.sa_flags, sigismember(&now.sa_mask, SIGUSR1), ran[0], ran[1]);
    fflush(stdout);
}

static void set(handler_t handler, int flags)
{
    struct sigaction new = {.sa_handler = handler, .sa_flags = flags}, old;
    MUST(sigaction(SIGUSR1, &new, &old) == 0);
    tell("sigaction", old.sa_handler);
}

static void refused(int number, handler_t handler)
{
    errno = 0;
    const char *old = name(signal(number, handler));
    printf("signal %d: %s, errno %d\n", number, old, errno);
}

static void mixed(void)
{
    set(first, 0);
    raise(SIGUSR1);
    tell("signal", signal(SIGUSR1, second));
    raise(SIGUSR1);
    tell("signal", signal(SIGUSR1, SIG_IGN));
    raise(SIGUSR1);
    set(first, SA_RESTART);
    MUST(siginterrupt(SIGUSR1, 1) == 0);
    tell("siginterrupt", first);
    tell("signal", signal(SIGUSR1, second));
    MUST(siginterrupt(SIGUSR1, 0) == 0);
    tell("siginterrupt", second);
    tell("bsd_signal", bsd_signal(SIGUSR1, first));
    tell("ssignal", ssignal(SIGUSR1, second));
    tell("sysv", __sysv_signal(SIGUSR1, first));
    raise(SIGUSR1);
    tell("ran once", SIG_DFL);
    tell("signal", signal(SIGUSR1, SIG_DFL));
    printf("errno %d\n", errno);
    refused(SIGKILL, first);
    refused(99, first);
    refused(SIGUSR1, SIG_ERR);
}

static void child(int way)
{
    static char *const args[] = {"true", NULL};
    struct sigaction other = {.sa_handler = way == 0 ? SIG_DFL : way == 1 ? SIG_IGN : second};
    struct sigaction old;
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        if (sigaction(SIGUSR1, NULL, &old) != 0 || old.sa_handler != first)
            _exit(10);
        if (sigaction(SIGUSR1, &other, NULL) != 0)
            _exit(11);
        if (sigaction(SIGUSR1, NULL, &old) != 0 || old.sa_handler != other.sa_handler)
            _exit(12);
        if (way == 3)
            _exit(13);
        execve("/bin/true", args, environ);
        _exit(127);
    }
    MUST(pid > 0);
    MUST(waitpid(pid, &status, 0) == pid);
    printf("child %d: %x\n", way, status);
    raise(SIGUSR1);
    tell("after the child", first);
}

static void interrupted(int fd, int interrupts)
{
    struct itimerval soon = {.it_value.tv_usec = 100000};
    char byte = 0;
    ran[0] = 0;
    MUST(signal(SIGALRM, first) != SIG_ERR);
    MUST(siginterrupt(SIGALRM, interrupts) == 0);
    MUST(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    errno = 0;
    ssize_t got = read(fd, &byte, 1);
    printf("interrupts %d: read %zd %d, ran %d\n", interrupts, got, got < 0 ? errno : 0, ran[0]);
    fflush(stdout);
    if (got < 0)
        MUST(read(fd, &byte, 1) == 1);
}

int main(int argc, char **argv)
{
    printf("errno at the start: %d\n", errno);
    MUST(argc >= 3);
    if (strcmp(argv[2], "server") == 0) {
        int fd = accept(serve_announced(), NULL, NULL);
        MUST(fd >= 0);
        warm_server(fd);
        mixed();
        set(first, 0);
        for (int way = 0; way < 4; way++)
            child(way);
        interrupted(fd, 1);
        interrupted(fd, 0);
        MUST(close(fd) == 0);
    } else {
        int fd = dial(atoi(argv[3]));
        char byte;
        warm_client(fd);
        for (int i = 0; i < 2; i++) {
            usleep(500000);
            MUST(write(fd, "x", 1) == 1);
        }
        printf("end: %zd\n", read(fd, &byte, 1));
        MUST(close(fd) == 0);
    }
    return 0;
}
