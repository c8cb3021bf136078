/* Sends and receives by io_uring where it can be had, by ordinary calls otherwise, as a program with
 * a fallback does. Which way it went is told on a line that is not compared. */
#include "talk.h"
#include <liburing.h>

static struct io_uring ring;
static int have;

static long finish(void)
{
	struct io_uring_cqe *done;
	MUST(io_uring_submit(&ring) == 1);
	MUST(io_uring_wait_cqe(&ring, &done) == 0);
	long result = done->res;
	io_uring_cqe_seen(&ring, done);
	return result;
}

static void move(int fd, char *data, size_t len, int out)
{
	size_t at = 0;
	while (at < len) {
		long n;
		if (have) {
			struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
			if (out)
				io_uring_prep_send(entry, fd, data + at, len - at, MSG_NOSIGNAL);
			else
				io_uring_prep_recv(entry, fd, data + at, len - at, 0);
			n = finish();
		} else {
			n = out ? send(fd, data + at, len - at, MSG_NOSIGNAL) : recv(fd, data + at, len - at, 0);
		}
		MUST(n > 0);
		at += n;
	}
}

int main(int argc, char **argv)
{
	static char data[70000];
	MUST(argc >= 3);
	int server = strcmp(argv[2], "server") == 0;
	have = io_uring_queue_init(8, &ring, 0) == 0;
	printf("@note io_uring %d\n", have);
	int fd = server ? accept(serve_announced(), NULL, NULL) : dial(atoi(argv[3]));
	MUST(fd >= 0);
	unsigned sum = 0;
	for (int turn = 0; turn < 40; turn++) {
		size_t len = 1 + turn * 1700;
		if (!server) {
			memset(data, turn, len);
			move(fd, data, len, 1);
		}
		move(fd, data, len, 0);
		for (size_t i = 0; i < len; i++)
			sum = sum * 31 + (unsigned char)data[i];
		if (server)
			move(fd, data, len, 1);
	}
	printf("sum %u\n", sum);
	close(fd);
	return 0;
}
