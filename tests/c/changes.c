/* A client and a server of which one, or both, change what they are in the middle:
 *
 *   changes CHANGE server|client … WHO
 *
 * One connection is in use before and after the change, another is made after it. */
#include "talk.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { ROUNDS = 30, ROUND = 1500 };

static void limit(int what, rlim_t value)
{
    struct rlimit limit = {value, value};
    MUST(setrlimit(what, &limit) == 0);
}

static void change(const char *what)
{
    if (strcmp(what, "user") == 0) {
        MUST(setgid(65534) == 0 && setuid(65534) == 0);
    } else if (strcmp(what, "effective user") == 0) {
        MUST(seteuid(65534) == 0);
    } else if (strcmp(what, "user space") == 0) {
        MUST(unshare(CLONE_NEWUSER) == 0);
    } else if (strcmp(what, "network") == 0) {
        MUST(unshare(CLONE_NEWNET) == 0);
    } else if (strcmp(what, "mounts") == 0) {
        MUST(unshare(CLONE_NEWNS) == 0);
        MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        MUST(umount2("/proc", MNT_DETACH) == 0);
    } else if (strcmp(what, "processes") == 0) {
        MUST(unshare(CLONE_NEWPID) == 0);
    } else if (strcmp(what, "descriptors") == 0) {
        MUST(unshare(CLONE_FILES) == 0);
    } else if (strcmp(what, "root") == 0) {
        MUST(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0);
    } else if (strcmp(what, "undumpable") == 0) {
        MUST(prctl(PR_SET_DUMPABLE, 0) == 0);
    } else if (strcmp(what, "file size") == 0) {
        limit(RLIMIT_FSIZE, 0);
    } else if (strcmp(what, "number of files") == 0) {
        limit(RLIMIT_NOFILE, 6);
    } else if (strcmp(what, "address space") == 0) {
        limit(RLIMIT_AS, 1 << 20);
    } else if (strcmp(what, "locked memory") == 0) {
        limit(RLIMIT_MEMLOCK, 0);
    } else if (strcmp(what, "nothing") != 0 && strcmp(what, "user between") != 0) {
        MUST(!"no such change");
    }
}

static void ask(int fd)
{
    char text[ROUND];
    for (int round = 0; round < ROUNDS; round++) {
        memset(text, 'a' + round % 26, ROUND);
        put(fd, text, ROUND);
        MUST(get(fd, text, ROUND) == ROUND);
        MUST(text[0] == 'A' + round % 26 && text[ROUND - 1] == text[0]);
    }
}

static void answer(int fd)
{
    char text[ROUND];
    for (int round = 0; round < ROUNDS; round++) {
        MUST(get(fd, text, ROUND) == ROUND);
        for (int at = 0; at < ROUND; at++)
            text[at] -= 'a' - 'A';
        put(fd, text, ROUND);
    }
}

int main(int argc, char **argv)
{
    int serves = strcmp(argv[2], "server") == 0, port = atoi(argv[3]), more;
    const char *who = argv[argc - 1];
    int changes = strcmp(who, "both") == 0 || strcmp(who, argv[2]) == 0;
    int listener = serves ? serve_announced() : -1;
    if (strcmp(who, "both") != 0 && strcmp(who, "client") != 0 && strcmp(who, "server") != 0)
        return 2;
    int fd = serves ? accept(listener, NULL, NULL) : dial(port);
    MUST(fd >= 0);
    serves ? warm_server(fd) : warm_client(fd);
    if (changes)
        change(argv[1]);
    serves ? answer(fd) : ask(fd);
    more = -1;
    if (strcmp(argv[1], "network") != 0) {
        more = serves ? accept(listener, NULL, NULL) : dial(port);
        MUST(more >= 0);
        if (changes && strcmp(argv[1], "user between") == 0)
            change("user");
        serves ? warm_server(more) : warm_client(more);
        serves ? answer(more) : ask(more);
    }
    serves ? answer(fd) : ask(fd);
    char byte;
    if (serves) {
        shutdown(fd, SHUT_WR);
        MUST(get(fd, &byte, 1) == 0);
    } else {
        MUST(get(fd, &byte, 1) == 0);
        shutdown(fd, SHUT_WR);
    }
    close(fd);
    close(more);
    if (write(1, "done\n", 5) != 5)
        return 1;
    return 0;
}
