/* Sockets that get the number of standard input when they are made, and are then read by `stdin`:
 * those of a client, and those that a listener accepts. */
#include "talk.h"

enum { LINES = 15 };

static void server(void)
{
    int listener = serve_announced();
    close(0);
    MUST(accept(listener, NULL, NULL) == 0);
    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        char answer[120];
        sprintf(answer, "answer to %s", line);
        put(0, answer, strlen(answer));
    }
    printf("end %d, error %d\n", feof(stdin) != 0, ferror(stdin) != 0);
}

static void client(int port)
{
    close(0);
    MUST(dial(port) == 0);
    /* The first thing that is read comes by the stream. */
    for (int n = 0; n < LINES; n++) {
        char line[100];
        sprintf(line, "line %d\n", n);
        put(0, line, strlen(line));
        MUST(fgets(line, sizeof line, stdin));
        printf("%s", line);
    }
    shutdown(0, SHUT_WR);
    printf("end %d\n", getchar() == EOF);
    fclose(stdin);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (strcmp(argv[2], "server") == 0)
        server();
    else
        client(atoi(argv[3]));
    return 0;
}
