// A thread that is cancelled in a blocking call runs its C cleanup handlers and the destructors of
// its C++ frames; prints one line per call. The output must be the same bare and with the library.
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "talk.h"

static int fd, peer, listener, epfd, pipes[2];
static int destroyed, cleaned;

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
	case 15: for (;;) send(fd, buf, sizeof buf, 0);
	case 16: for (;;) (void)!write(fd, buf, sizeof buf);
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
	for (long which = 0; which <= 16; which++) {
		pthread_t thread;
		void *result;
		destroyed = cleaned = 0;
		pthread_create(&thread, nullptr, run, reinterpret_cast<void *>(which));
		usleep(50000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("%ld: cancelled %d, destroyed %d, cleaned %d\n", which, result == PTHREAD_CANCELED,
		       destroyed, cleaned);
		fflush(stdout);
		if (which < 15)
			still_works();
	}
	return 0;
}
