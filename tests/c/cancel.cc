// A thread that is cancelled in a blocking call runs its C cleanup handlers and the destructors of
// its C++ frames; prints one line per call. The output must be the same bare and with the library.
#include <arpa/inet.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "talk.h"

enum { FIRST_SEND = 18, FIRST_UNCANCELLED = 26, LAST = 28, FILE_LEN = 8 << 20 };

static int fd, peer, listener, epfd, pipes[2], file, another;
static int destroyed, cleaned;
static char big[FILE_LEN];
static std::atomic<long> moved;
static sockaddr_in full; /* a listener whose queue is full */

struct Guard {
	~Guard() { destroyed++; }
};

static void cleanup(void *) { cleaned++; }

static void block(int which)
{
	char buf[16];
	iovec iov = {buf, sizeof buf};
	msghdr msg = {};
	mmsghdr many = {};
	pollfd p = {fd, POLLIN, 0};
	epoll_event ev;
	fd_set set;
	timespec hour = {3600, 0};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	msg.msg_iov = &iov;
	msg.msg_iovlen = 1;
	many.msg_hdr = msg;
	Guard guard;
	switch (which) {
	case 0: (void)!read(fd, buf, 1); break;
	case 1: recv(fd, buf, 1, 0); break;
	case 2: recvfrom(fd, buf, 1, 0, nullptr, nullptr); break;
	case 3: recvmsg(fd, &msg, 0); break;
	case 4: (void)!readv(fd, &iov, 1); break;
	case 5: recvmmsg(fd, &many, 1, 0, nullptr); break;
	case 6: poll(&p, 1, -1); break;
	case 7: ppoll(&p, 1, &hour, nullptr); break;
	case 8: select(fd + 1, &set, nullptr, nullptr, nullptr); break;
	case 9: pselect(fd + 1, &set, nullptr, nullptr, &hour, nullptr); break;
	case 10: epoll_wait(epfd, &ev, 1, -1); break;
	case 11: epoll_pwait(epfd, &ev, 1, -1, nullptr); break;
	case 12: accept(listener, nullptr, nullptr); break;
	case 13: accept4(listener, nullptr, nullptr, 0); break;
	case 14: splice(fd, nullptr, pipes[1], nullptr, 10, 0); break;
	case 15: (void)!preadv2(fd, &iov, 1, -1, 0); break;
	case 16: epoll_pwait2(epfd, &ev, 1, nullptr, nullptr); break;
	case 17: connect(another, reinterpret_cast<sockaddr *>(&full), sizeof full); break;
	/* Until nothing fits any more. */
	case FIRST_SEND: for (;;) send(fd, buf, sizeof buf, 0);
	case 19: for (;;) (void)!write(fd, buf, sizeof buf);
	case 20: for (;;) sendto(fd, buf, sizeof buf, 0, nullptr, 0);
	case 21: for (;;) sendmsg(fd, &msg, 0);
	case 22: for (;;) sendmmsg(fd, &many, 1, 0);
	case 23: for (;;) (void)!writev(fd, &iov, 1);
	case 24: for (;;) (void)!pwritev2(fd, &iov, 1, -1, 0);
	case 25: for (;;) {
			(void)!write(pipes[1], buf, sizeof buf);
			splice(pipes[0], nullptr, fd, nullptr, sizeof buf, 0);
		}
	/* No cancellation points: they go on to their end. */
	case 26: moved = sendfile(fd, file, nullptr, FILE_LEN); pthread_testcancel(); break;
	case 27: moved = syscall(SYS_write, fd, big, FILE_LEN); pthread_testcancel(); break;
	case 28: moved = syscall(SYS_read, fd, buf, 4); pthread_testcancel(); break;
	}
	printf("%d returned\n", which);
}

static void *run(void *arg)
{
	pthread_cleanup_push(cleanup, nullptr);
	Guard outer;
	block(static_cast<int>(reinterpret_cast<long>(arg)));
	pthread_cleanup_pop(0);
	return nullptr;
}

static void *answer(void *unused)
{
	warm_server(peer);
	return unused;
}

/* Turns, after which a connection that can be accelerated is so. */
static void warm()
{
	pthread_t thread;
	pthread_create(&thread, nullptr, answer, nullptr);
	warm_client(fd);
	pthread_join(thread, nullptr);
}

/* A connection that has been cancelled in a call without having moved anything still works. */
static void still_works()
{
	char byte = 'x';
	MUST(send(peer, &byte, 1, 0) == 1);
	MUST(recv(fd, &byte, 1, 0) == 1 && byte == 'x');
	MUST(send(fd, &byte, 1, 0) == 1);
	MUST(recv(peer, &byte, 1, 0) == 1);
}

int main()
{
	int port;
	listener = serve(&port);
	fd = dial(port);
	peer = accept(listener, nullptr, nullptr);
	MUST(peer >= 0 && pipe(pipes) == 0);
	warm();
	epfd = epoll_create1(0);
	epoll_event ev = {};
	ev.events = EPOLLIN;
	epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev);
	int busy = serve(&port);
	MUST(listen(busy, 0) == 0);
	full = loopback(port);
	dial(port);
	another = socket(AF_INET, SOCK_STREAM, 0);
	file = fileno(tmpfile());
	MUST(file >= 0 && another >= 0 && ftruncate(file, FILE_LEN) == 0);
	for (long which = 0; which <= LAST; which++) {
		pthread_t thread;
		void *result;
		destroyed = cleaned = 0;
		pthread_create(&thread, nullptr, run, reinterpret_cast<void *>(which));
		usleep(50000);
		pthread_cancel(thread);
		while (which >= FIRST_UNCANCELLED && pthread_tryjoin_np(thread, &result) != 0) {
			/* What it waits for comes. */
			char room[65536];
			usleep(which == LAST ? 20000 : 0);
			if (which == LAST)
				send(peer, "four", 4, 0);
			while (recv(peer, room, sizeof room, MSG_DONTWAIT) > 0)
				;
		}
		if (which < FIRST_UNCANCELLED)
			pthread_join(thread, &result);
		else
			printf("moved %ld\n", moved.load());
		printf("%ld: cancelled %d, destroyed %d, cleaned %d\n", which, result == PTHREAD_CANCELED,
		       destroyed, cleaned);
		fflush(stdout);
		if (which < FIRST_SEND)
			still_works();
	}
	return 0;
}
