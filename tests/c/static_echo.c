/* A program without a dynamic loader: echoes on a descriptor until the end. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int fd = argc > 1 ? atoi(argv[1]) : 0;
    char text[4096];
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0)
        for (ssize_t done = 0, wrote; done < n; done += wrote)
            if ((wrote = write(fd, text + done, n - done)) < 0)
                return 1;
    return n < 0;
}
