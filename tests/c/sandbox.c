/* A program that forbids itself system calls by a seccomp filter: before its first socket, before its
 * first connection, or with one in use. Arguments behind the role: what a forbidden call does, when, and
 * who does it. The filter lets pass what the program itself calls, as sandboxes have it, or forbids only
 * what it has no use for. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "talk.h"

#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define FORBID(number, action) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void install(const struct sock_filter *filter, size_t count, int by_number)
{
    struct sock_fprog program = {count, (struct sock_filter *)filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_number)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

/* Only what this program and libc call, to print and to allocate; anything else ends the process. */
static void forbid_all_but_own(void)
{
    static const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_close), ALLOW(SYS_exit_group),
        ALLOW(SYS_accept), ALLOW(SYS_socket), ALLOW(SYS_connect), ALLOW(SYS_bind),
        ALLOW(SYS_listen), ALLOW(SYS_getsockname), ALLOW(SYS_brk), ALLOW(SYS_mmap),
        ALLOW(SYS_munmap), ALLOW(SYS_newfstatat), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_poll),
        ALLOW(SYS_epoll_wait), ALLOW(SYS_futex), ALLOW(SYS_getrandom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    install(filter, COUNT(filter), 0);
}

/* What a library might want and this program does not. */
static void forbid_strange_calls(unsigned action)
{
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(SYS_memfd_create, action), FORBID(SYS_eventfd2, action), FORBID(SYS_ppoll, action),
        FORBID(SYS_sendmsg, action), FORBID(SYS_recvmsg, action), FORBID(SYS_fcntl, action),
        FORBID(SYS_ioctl, action), FORBID(SYS_setsockopt, action), FORBID(SYS_getsockopt, action),
        /* Netlink and Unix sockets. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, COUNT(filter), 1);
}

static void forbid(const char *how)
{
    if (strcmp(how, "all") == 0)
        forbid_all_but_own();
    else
        forbid_strange_calls(strcmp(how, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
                                                      : SECCOMP_RET_ERRNO | EPERM);
}

static int watched = -1;

/* Waits until there is something to read, in one of the ways in which programs do. */
static void await(int fd, int turn)
{
    struct epoll_event event;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (turn % 3 == 1)
        MUST(poll(&one, 1, -1) == 1 && one.revents & POLLIN);
    if (turn % 3 == 2 && watched >= 0)
        MUST(epoll_wait(watched, &event, 1, -1) == 1 && event.data.u64 == 7);
}

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    watched = epoll_create1(EPOLL_CLOEXEC);
    MUST(watched >= 0 && epoll_ctl(watched, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void turns(int fd, int first)
{
    char buf[3000];
    for (int turn = 0; turn < 60; turn++) {
        size_t len = 1 + turn * 47;
        memset(buf, turn, len);
        if (first)
            put(fd, buf, len);
        await(fd, turn);
        MUST(get(fd, buf, len) == len && buf[0] == turn && buf[len - 1] == turn);
        if (!first)
            put(fd, buf, len);
    }
    printf("%d turns\n", 60);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int server = strcmp(argv[2], "server") == 0, next = server ? 3 : 4;
    const char *how = argv[next], *when = argv[next + 1], *who = argv[next + 2];
    int mine = strcmp(who, "both") == 0 || strcmp(who, argv[2]) == 0;
    int early = strcmp(when, "early") == 0, fresh = strcmp(when, "fresh") == 0;
    char word[8] = "";

    (void)argc;
    if (mine && early)
        forbid(how);
    for (int round = 0; round < 2; round++) {
        static int listener = -1;
        int fd;
        if (server) {
            if (listener < 0)
                listener = serve_announced();
            fd = accept(listener, NULL, NULL);
            MUST(fd >= 0);
        } else {
            fd = dial(atoi(argv[3]));
        }
        if (mine && round == 0 && fresh)
            forbid(how);
        if (round == 0 && !early && !fresh) {
            watch(fd);
            if (server)
                warm_server(fd);
            else
                warm_client(fd);
            /* Something lies there when the filter comes. */
            put(fd, "unread", 6);
            if (mine)
                forbid(how);
            MUST(get(fd, word, 6) == 6 && memcmp(word, "unread", 6) == 0);
        }
        turns(fd, !server);
        if (server) {
            MUST(wrong_bytes(fd, 5, 1 << 20) == 0 && get(fd, word, 1) == 0);
        } else {
            put_stream(fd, 5, 1 << 20);
        }
        close(fd);
        watched = -1;
    }
    printf("done\n");
    return 0;
}
