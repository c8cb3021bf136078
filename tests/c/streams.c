/* What a program does by libc's streams on its standard descriptors, which are a connection. */
#include <assert.h>
#include <err.h>
#include <error.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netdb.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#include <utmp.h>
#include <wchar.h>

extern const char *__progname;

/* Reads a line by a different function each time, and answers by a different one. */
static void lines(void)
{
    static char line[200], word[3][50];
    char *grown = NULL;
    size_t room = 0;
    printf("numbers %d %d %d\n", fileno(stdin), fileno(stdout), fileno(stderr));
    fflush(stdout);
    for (int n = 0;; n++) {
        line[0] = 0;
        switch (n % 5) {
        case 0:
            if (!fgets(line, sizeof line, stdin))
                goto end;
            break;
        case 1:
            if (getline(&grown, &room, stdin) < 0)
                goto end;
            strcpy(line, grown);
            break;
        case 2: {
            int number;
            if (scanf("%49s %d %49s %49s", word[0], &number, word[1], word[2]) != 4)
                goto end;
            sprintf(line, "%s %d %s %s%c", word[0], number, word[1], word[2], getchar());
            break;
        }
        case 3: {
            int at = 0, c;
            while ((c = getchar()) != EOF) {
                if (at == 0) {
                    ungetc(c, stdin);
                    c = getchar();
                }
                line[at++] = c;
                if (c == '\n')
                    break;
            }
            line[at] = 0;
            if (c == EOF)
                goto end;
            break;
        }
        case 4:
            for (int at = 0; at < 190; at++) {
                if (fread(line + at, 1, 1, stdin) != 1)
                    goto end;
                if (line[at] == '\n') {
                    line[at + 1] = 0;
                    break;
                }
            }
        }
        switch (n % 6) {
        case 0: printf("printf %s", line); break;
        case 1: fputs("fputs ", stdout); fputs(line, stdout); break;
        case 2: fwrite("fwrite ", 1, 7, stdout); fwrite(line, strlen(line), 1, stdout); break;
        case 3: fprintf(stderr, "stderr %s", line); break;
        case 4: line[strlen(line) - 1] = 0; puts(line); break;
        case 5: for (char *c = line; *c; c++) putchar(*c); break;
        }
        fflush(stdout);
    }
end:
    printf("end of file %d, error %d\n", feof(stdin) != 0, ferror(stdin) != 0);
}

/* Output by several ways, each of which must come where it was made. */
static void mixed(void)
{
    static char large[300000];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int n = 0; n < 30; n++) {
        printf("line buffered %d\n", n);
        dprintf(1, "dprintf %d\n", n);
        fprintf(stderr, "unbuffered %d\n", n);
        if (write(2, "write\n", 6) != 6)
            exit(1);
        perror(n % 2 ? "perror" : NULL);
    }
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\n';
    fwrite(large, sizeof large, 1, stdout);
    fprintf(stderr, "after much\n");
    errno = ENOENT;
    perror("last");
    /* More than once, since the first kept its copy of the descriptor to itself. */
    fwide(stderr, -1);
    errno = ENOTTY;
    perror("oriented");
    printf("no end of line, and buffers at the end");
    setvbuf(stdout, NULL, _IOFBF, 100000);
    printf(" of the program");
}

/* Messages of libc. */
static void messages(void)
{
    puts("first, in the buffer of stdout");
    warn("warn");
    warnx("warnx");
    fflush(stdout);
    error(0, EPERM, "error");
    errno = 0;
    psignal(SIGTERM, "psignal");
    siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_USER};
    psiginfo(&info, "psiginfo");
    puts("between");
    fflush(stdout);
    h_errno = HOST_NOT_FOUND;
    herror("herror");
    void *frames[1] = {NULL};
    puts("between");
    fflush(stdout);
    backtrace_symbols_fd(frames, 1, 2);
    puts("behind");
}

/* The log, on standard error too. */
static void logged(void)
{
    openlog("logged", LOG_PERROR, LOG_USER);
    for (int n = 0; n < 20; n++) {
        printf("before %d\n", n);
        fflush(stdout);
        syslog(LOG_DEBUG, "message %d", n);
    }
}

/* Ends that libc announces itself. */
static void dies(const char *how)
{
    for (int n = 0; n < 2000; n++)
        printf("before the end %d\n", n);
    fflush(stdout);
    if (strcmp(how, "assert") == 0)
        assert(how == NULL);
    if (strcmp(how, "free") == 0) {
        void *volatile wrong = (char *)malloc(100) + 3;
        free(wrong);
    }
    if (strcmp(how, "overflow") == 0) {
        char small[8];
        volatile size_t len = 20;
        memset(small, 'x', len);
        fwrite(small, 1, 8, stderr);
    }
    if (strcmp(how, "err") == 0)
        err(3, "err");
    abort();
}

static void on_abort(int signal)
{
    (void)signal;
    if (write(2, "handler\n", 8) != 8)
        _exit(4);
}

/* Wide characters. */
static void wide(void)
{
    wchar_t line[200];
    while (fgetws(line, 200, stdin)) {
        fwprintf(stdout, L"wide %d %ls", fwide(stdout, 0) > 0, line);
        fflush(stdout);
        fputws(L"", stderr);
    }
    wprintf(L"end %d\n", fwide(stdin, 0) > 0);
    perror("perror on a wide stream");
}

/* The streams get other files, and other streams the connection. */
static void reopened(const char *own)
{
    printf("before, in the buffer; ");
    if (!freopen("/dev/null", "w", stdout))
        exit(1);
    fprintf(stderr, "number %d\n", fileno(stdout));
    puts("nobody reads this");
    fflush(stdout);
    struct stat at;
    fprintf(stderr, "a device: %d\n", fstat(1, &at) == 0 && S_ISCHR(at.st_mode));
    FILE *in = fdopen(dup(0), "r"), *out = fdopen(dup(0), "w");
    char line[100];
    while (fgets(line, sizeof line, in)) {
        fprintf(out, "out %s", line);
        fflush(out);
    }
    fprintf(out, "in the buffer of a stream that is closed\n");
    fprintf(stderr, "closed %d, %d\n", fclose(in), fclose(out));
    if (!freopen(own, "r", stdin))
        exit(1);
    fprintf(stderr, "read %d\n", fgets(line, 5, stdin) != NULL && line[1] == 'E');
    /* A stream of a file whose descriptor becomes the connection. */
    FILE *file = tmpfile();
    dup2(2, fileno(file));
    fprintf(file, "by the stream of a file\n");
    fprintf(stderr, "closed %d\n", fclose(file));
    fclose(stdin);
    fclose(stdout);
    int first = dup(2);
    fprintf(stderr, "lowest %d\n", first);
    FILE *copy = fdopen(first, "w");
    fprintf(copy, "in the buffer at the end\n");
}

/* A child on a terminal of its own, which takes the place of the connection inside libc. */
static void terminal(void)
{
    static const char *names[] = {"forkpty", "login_tty"};
    printf("in the buffer of stdout\n");
    fflush(stdout);
    for (int how = 0; how < 2; how++) {
        int master, slave;
        pid_t child;
        if (how == 0) {
            child = forkpty(&master, NULL, NULL, NULL);
        } else {
            if (openpty(&master, &slave, NULL, NULL, NULL) != 0)
                exit(1);
            child = fork();
            if (child == 0 && login_tty(slave) != 0)
                _exit(1);
            if (child != 0)
                close(slave);
        }
        if (child == 0) {
            printf("to the terminal by %s\n", names[how]);
            fflush(stdout);
            if (write(2, "and by write\n", 13) != 13)
                _exit(1);
            _exit(0);
        }
        char text[200];
        ssize_t n;
        while ((n = read(master, text, sizeof text)) > 0)
            fwrite(text, 1, n, stdout);
        close(master);
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", status);
        fflush(stdout);
    }
}

/* Much in, much out. */
static void echo(void)
{
    static char block[10000];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stdin)) > 0)
        fwrite(block, 1, n, stdout);
}

int main(int argc, char **argv)
{
    __progname = program_invocation_name = (char *)"streams";
    program_invocation_short_name = program_invocation_name;
    const char *what = argv[1];
    if (strcmp(what, "lines") == 0)
        lines();
    else if (strcmp(what, "mixed") == 0)
        mixed();
    else if (strcmp(what, "messages") == 0)
        messages();
    else if (strcmp(what, "logged") == 0)
        logged();
    else if (strcmp(what, "wide") == 0)
        wide();
    else if (strcmp(what, "reopened") == 0)
        reopened(argv[0]);
    else if (strcmp(what, "terminal") == 0)
        terminal();
    else if (strcmp(what, "echo") == 0)
        echo();
    else {
        if (argc > 2)
            signal(SIGABRT, on_abort);
        dies(what);
    }
    return 7;
}
