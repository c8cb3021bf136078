/* Walks through the calls on a TCP connection of its own, by their less common names and by number,
 * and prints what each one returned. The output must be the same bare and with the library loaded. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

extern ssize_t __read(int, void *, size_t), __write(int, const void *, size_t);
extern ssize_t __send(int, const void *, size_t, int);
extern int __close(int), __dup2(int, int), __fcntl(int, int, ...), __poll(struct pollfd *, nfds_t, int);
extern ssize_t __read_chk(int, void *, size_t, size_t), __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
extern int __poll_chk(struct pollfd *, nfds_t, int, size_t);
extern int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
extern int __dprintf_chk(int, int, const char *, ...);

static int a, b; /* the two ends */
static char buf[65536];

static void say(const char *what, long got)
{
	printf("%s: %ld", what, got);
	if (got < 0)
		printf(" %s", strerror(errno));
	printf("\n");
	errno = 0;
}

/* What the other end has got. */
static void drain(const char *what)
{
	memset(buf, 0, sizeof buf);
	struct pollfd p = {.fd = b, .events = POLLIN};
	poll(&p, 1, 1000);
	usleep(2000);
	long got = recv(b, buf, sizeof buf, MSG_DONTWAIT);
	printf("%s: peer got %ld \"%.200s\"\n", what, got, got > 0 ? buf : "");
}

static void connected(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof addr;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&addr, len) || listen(listener, 8) ||
	    getsockname(listener, (void *)&addr, &len))
		exit(2);
	a = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(a, (void *)&addr, len))
		exit(2);
	b = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (b < 0)
		exit(2);
	close(listener);
	/* Nagle's algorithm would hold small writes back until a delayed acknowledgement. */
	int on = 1;
	setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Turns, after which a connection that can be accelerated is so. */
static void *answer(void *unused)
{
	char turn[200];
	for (int i = 0; i < 12; i++)
		if (recv(b, turn, sizeof turn, MSG_WAITALL) != sizeof turn || send(b, turn, sizeof turn, 0) < 0)
			exit(3);
	return unused;
}

static void warm(void)
{
	char turn[200] = "turn";
	pthread_t thread;
	pthread_create(&thread, NULL, answer, NULL);
	for (int i = 0; i < 12; i++)
		if (send(a, turn, sizeof turn, 0) < 0 || recv(a, turn, sizeof turn, MSG_WAITALL) != sizeof turn)
			exit(3);
	pthread_join(thread, NULL);
}

static int list(int fd, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vdprintf(fd, format, args);
	va_end(args);
	return n;
}

static void text(void)
{
	say("dprintf", dprintf(a, "%d %s %.2f %d %d %d %d %d %.1f|", 1, "two", 3.0, 4, 5, 6, 7, 8, 9.5));
	drain("dprintf");
	say("dprintf many doubles", dprintf(a, "%.0f%.0f%.0f%.0f%.0f%.0f%.0f%.0f%.0f%.0f %s", 1., 2., 3.,
					    4., 5., 6., 7., 8., 9., 10., "end"));
	drain("dprintf many doubles");
	say("vdprintf", list(a, "%s-%ld-%c", "list", 123456789012345L, 'x'));
	drain("vdprintf");
	say("__dprintf_chk", __dprintf_chk(a, 1, "%s %d %.3f %d %d %d", "chk", 7, 1.5, 1, 2, 3));
	drain("__dprintf_chk");
	say("dprintf bad fd", dprintf(999, "x"));
	FILE *out = fdopen(dup(a), "r+");
	say("fileno", fileno(out) > 2);
	say("fprintf", fprintf(out, "hello %d\n", 5));
	say("fseek", fseek(out, 0, SEEK_SET));
	say("fflush", fflush(out));
	drain("stream");
	send(b, "line one\nline two\n", 18, 0);
	printf("fgets: %s", fgets(buf, 100, out));
	printf("fgets: %s", fgets(buf, 100, out));
	int fd = fileno(out);
	say("fclose", fclose(out));
	say("closed", fcntl(fd, F_GETFD));
	FILE *tmp = tmpfile();
	say("tmpfile", fprintf(tmp, "x"));
	fclose(tmp);
}

static void names(void)
{
	say("__write", __write(a, "abc", 3));
	say("__send", __send(a, "def", 3, 0));
	usleep(2000);
	say("__read", __read(b, buf, 2));
	say("__read_chk", __read_chk(b, buf, 1, sizeof buf));
	say("__recv_chk", __recv_chk(b, buf, 1, sizeof buf, 0));
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	say("__recvfrom_chk", __recvfrom_chk(b, buf, 1, sizeof buf, 0, (void *)&from, &len));
	say("its address length", len);
	struct pollfd p = {.fd = b, .events = POLLIN | POLLOUT};
	say("__poll_chk", __poll_chk(&p, 1, 0, sizeof p));
	say("revents", p.revents);
	struct timespec soon = {0, 1000};
	say("__ppoll_chk", __ppoll_chk(&p, 1, &soon, NULL, sizeof p));
	say("__poll", __poll(&p, 1, 0));
	say("FIONREAD", ioctl(b, FIONREAD, &len) ? -1 : (long)len);
	say("sockatmark", sockatmark(b));
	len = 99;
	say("recvfrom", recvfrom(b, buf, 10, 0, (void *)&from, &len));
	say("its address length", len);
	say("recvfrom null length", (send(a, "q", 1, 0), recvfrom(b, buf, 10, 0, (void *)&from, NULL)));
	memset(&from, 0, sizeof from);
	say("sendto address", sendto(a, "addr", 4, 0, (void *)&from, sizeof from));
	say("sendto long address", sendto(a, "addr", 4, 0, (void *)buf, 200));
	drain("sendto");
	int copy = __fcntl(a, F_DUPFD_CLOEXEC, 200);
	say("F_DUPFD", copy);
	say("write to it", write(copy, "dup", 3));
	say("__dup2", __dup2(b, copy));
	drain("dup");
	say("__close", __close(copy));
	say("close again", close(copy));
}

static void messages(void)
{
	struct iovec iov[4];
	struct mmsghdr m[4];
	char parts[4][8];
	memset(m, 0, sizeof m);
	for (int i = 0; i < 4; i++) {
		snprintf(parts[i], 8, "msg%d", i);
		iov[i] = (struct iovec){parts[i], 4};
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	say("sendmmsg", sendmmsg(a, m, 4, 0));
	say("lengths", m[0].msg_len * 1000 + m[3].msg_len);
	usleep(2000);
	struct timespec second = {1, 0};
	say("recvmmsg", recvmmsg(b, m, 2, 0, &second));
	say("time left", second.tv_sec == 0 && second.tv_nsec > 0);
	say("recvmmsg wait for one", recvmmsg(b, m, 4, MSG_WAITFORONE, NULL));
	say("recvmmsg nothing", recvmmsg(b, m, 4, MSG_DONTWAIT, NULL));
	second.tv_nsec = -1;
	say("recvmmsg bad time", recvmmsg(b, m, 4, 0, &second));
	say("recvmmsg none", recvmmsg(b, m, 0, 0, NULL));
	say("sendmmsg none", sendmmsg(a, m, 0, 0));
	say("pwritev2", pwritev2(a, iov, 4, -1, 0));
	usleep(2000);
	say("preadv2", preadv2(b, iov, 2, -1, 0));
	say("preadv2 nowait", preadv2(b, iov, 4, -1, RWF_NOWAIT));
	say("preadv2 nowait empty", preadv2(b, iov, 4, -1, RWF_NOWAIT));
	say("preadv2 offset", preadv2(b, iov, 4, 0, 0));
	say("preadv2 bad flag", preadv2(b, iov, 4, -1, 1 << 20));
	say("pwritev2 bad flag", pwritev2(a, iov, 4, -1, 1 << 20));
}

static void numbers(void)
{
	say("SYS_write", syscall(SYS_write, a, "raw", 3L));
	say("SYS_sendto", syscall(SYS_sendto, a, "raw", 3L, 0L, 0L, 0L));
	usleep(2000);
	say("SYS_recvfrom", syscall(SYS_recvfrom, b, buf, 4L, MSG_PEEK, 0L, 0L));
	say("SYS_read", syscall(SYS_read, b, buf, 100L));
	struct pollfd p = {.fd = a, .events = POLLIN | POLLOUT};
	say("SYS_poll", syscall(SYS_poll, &p, 1L, 0L));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(a, &set);
	struct timespec soon = {0, 1000};
	sigset_t none;
	sigemptyset(&none);
	struct { sigset_t *mask; size_t size; } mask = {&none, 8};
	say("SYS_pselect6", syscall(SYS_pselect6, a + 1, NULL, &set, NULL, &soon, &mask));
	say("SYS_pselect6 null", syscall(SYS_pselect6, a + 1, NULL, &set, NULL, &soon, NULL));
	say("select", select(a + 1, NULL, &set, NULL, NULL));
	long fd = syscall(SYS_dup, a);
	say("SYS_dup", write(fd, "dup", 3));
	say("SYS_close", syscall(SYS_close, fd));
	say("SYS_close again", syscall(SYS_close, fd));
	say("SYS_openat", (fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0L)) > 0);
	say("write to it", write(fd, "file", 4));
	say("SYS_dup3", syscall(SYS_dup3, a, fd, O_CLOEXEC) == fd);
	say("write to it", write(fd, "tcp", 3));
	say("close_range", close_range(fd, fd, 0));
	drain("numbers");
	say("unknown call", syscall(100000L));
	say("getpid", syscall(SYS_getpid) == getpid());
}

/* Everything else that has a hook, by number, on the connection in use. */
static void all_numbers(void)
{
	char out[64] = "by number", in[64];
	struct iovec iov = {out, 9}, room = {in, sizeof in};
	struct msghdr put = {.msg_iov = &iov, .msg_iovlen = 1}, take = {.msg_iov = &room, .msg_iovlen = 1};
	struct mmsghdr puts = {.msg_hdr = put}, takes = {.msg_hdr = take};
	say("SYS_writev", syscall(SYS_writev, a, &iov, 1L));
	say("SYS_readv", syscall(SYS_readv, b, &room, 1L));
	say("SYS_pwritev2", syscall(SYS_pwritev2, a, &iov, 1L, -1L, -1L, 0L));
	say("SYS_preadv2", syscall(SYS_preadv2, b, &room, 1L, -1L, -1L, 0L));
	say("SYS_sendmsg", syscall(SYS_sendmsg, a, &put, 0L));
	say("SYS_recvmsg", syscall(SYS_recvmsg, b, &take, 0L));
	say("SYS_sendmmsg", syscall(SYS_sendmmsg, a, &puts, 1L, 0L));
	say("SYS_recvmmsg", syscall(SYS_recvmmsg, b, &takes, 1L, 0L, NULL));
	say("its length", takes.msg_len);
	FILE *file = tmpfile();
	fprintf(file, "file by number");
	fflush(file);
	off_t at = 0;
	say("SYS_sendfile", syscall(SYS_sendfile, a, fileno(file), &at, 100L));
	drain("SYS_sendfile");
	fclose(file);
	int ends[2];
	say("pipe", pipe(ends));
	say("fill", write(ends[1], "spliced", 7));
	say("SYS_splice", syscall(SYS_splice, ends[0], NULL, a, NULL, 100L, 0L));
	usleep(2000);
	say("SYS_splice back", syscall(SYS_splice, b, NULL, ends[1], NULL, 100L, 0L));
	say("read it", read(ends[0], in, sizeof in));
	close(ends[0]);
	close(ends[1]);
	int value = 0;
	socklen_t len = sizeof value;
	say("SYS_getsockopt", syscall(SYS_getsockopt, a, SOL_SOCKET, SO_TYPE, &value, &len));
	say("type", value);
	value = 1;
	say("SYS_setsockopt", syscall(SYS_setsockopt, a, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
	write(a, "xyz", 3);
	usleep(2000);
	say("SYS_ioctl", syscall(SYS_ioctl, b, FIONREAD, &value));
	say("there", value);
	say("SYS_fcntl", syscall(SYS_fcntl, b, F_GETFD));
	long copy = syscall(SYS_fcntl, b, F_DUPFD_CLOEXEC, 100L);
	say("SYS_read of a copy", syscall(SYS_read, copy, in, 2L));
	say("SYS_dup2", syscall(SYS_dup2, b, copy) == copy);
	say("SYS_read of it", syscall(SYS_read, copy, in, 2L));
	say("SYS_close_range", syscall(SYS_close_range, copy, copy, 0L));
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, got[4];
	long ep = syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	say("SYS_epoll_ctl", syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, b, &event));
	say("SYS_epoll_wait", syscall(SYS_epoll_wait, ep, got, 4L, 0L));
	write(a, "e", 1);
	say("SYS_epoll_wait", syscall(SYS_epoll_wait, ep, got, 4L, 1000L));
	say("SYS_epoll_pwait", syscall(SYS_epoll_pwait, ep, got, 4L, 1000L, NULL, 8L));
	struct timespec second = {1, 0};
	say("SYS_epoll_pwait2", syscall(SYS_epoll_pwait2, ep, got, 4L, &second, NULL, 8L));
	say("events", got[0].events * 100 + got[0].data.u64);
	say("close", close(ep));
	struct pollfd p = {.fd = b, .events = POLLIN};
	say("SYS_ppoll", syscall(SYS_ppoll, &p, 1L, &second, NULL, 8L));
	fd_set set;
	FD_ZERO(&set);
	FD_SET(b, &set);
	struct timeval soon = {1, 0};
	say("SYS_select", syscall(SYS_select, b + 1, &set, NULL, NULL, &soon));
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	say("SYS_connect again", syscall(SYS_connect, a, &to, sizeof to));
	say("SYS_listen", syscall(SYS_listen, a, 3L));
	say("SYS_shutdown of nothing", syscall(SYS_shutdown, a, 77L));
	say("SYS_recvfrom", syscall(SYS_recvfrom, b, in, sizeof in, 0L, NULL, NULL));
	/* From the start, by number alone. */
	int listener = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0L);
	socklen_t size = sizeof to;
	to.sin_port = 0;
	say("SYS_bind", syscall(SYS_bind, listener, &to, sizeof to));
	say("SYS_listen", syscall(SYS_listen, listener, 4L));
	getsockname(listener, (void *)&to, &size);
	int c = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0L);
	say("SYS_connect", syscall(SYS_connect, c, &to, sizeof to));
	int d = syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC);
	for (int i = 0; i < 12; i++) {
		if (syscall(SYS_write, c, out, 60L) != 60 || syscall(SYS_read, d, in, 64L) != 60 ||
		    syscall(SYS_write, d, in, 50L) != 50 || syscall(SYS_read, c, out, 64L) != 50)
			exit(4);
	}
	say("SYS_shutdown", syscall(SYS_shutdown, c, SHUT_WR));
	say("its end", syscall(SYS_read, d, in, 64L));
	say("SYS_close", syscall(SYS_close, c));
	say("SYS_close", syscall(SYS_close, d));
	say("SYS_close", syscall(SYS_close, listener));
}

static void waits(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = b}, out[4];
	say("epoll_ctl", epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	say("epoll_ctl again", epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	say("epoll_wait none", epoll_wait(ep, out, 4, 1));
	write(a, "x", 1);
	struct timespec second = {1, 0};
	say("epoll_pwait2", epoll_pwait2(ep, out, 4, &second, NULL));
	say("epoll_pwait", epoll_pwait(ep, out, 4, 1000, NULL));
	say("epoll_wait zero", epoll_wait(ep, out, 0, 0));
	say("epoll_ctl null", epoll_ctl(ep, EPOLL_CTL_MOD, b, NULL));
	drain("epoll");
	struct pollfd p[2] = {{.fd = b, .events = POLLIN}, {.fd = 999, .events = POLLIN}};
	say("poll bad fd", poll(p, 2, 0));
	say("revents", p[1].revents);
	FILE *file = tmpfile();
	fprintf(file, "file to socket");
	fflush(file);
	off_t at = 5;
	say("sendfile", sendfile(a, fileno(file), &at, 100));
	say("offset", at);
	drain("sendfile");
	fclose(file);
	close(ep);
}

static void passed(void)
{
	int pair[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	union { struct cmsghdr head; char room[CMSG_SPACE(2 * sizeof(int))]; } control;
	struct iovec one = {buf, 1};
	struct msghdr msg = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control,
			     .msg_controllen = sizeof control};
	memset(&control, 0, sizeof control);
	control.head = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	int fds[2] = {a, 0};
	memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
	say("send rights", sendmsg(pair[0], &msg, 0));
	say("recv rights", recvmsg(pair[1], &msg, 0));
	memcpy(fds, CMSG_DATA(&control.head), sizeof fds);
	say("write to it", write(fds[0], "passed", 6));
	drain("passed");
	close(fds[0]);
	close(fds[1]);
	say("closed", write(fds[0], "passed", 6));
}

static void end(void)
{
	say("shutdown", shutdown(a, SHUT_WR));
	usleep(2000);
	say("EOF", read(b, buf, 10));
	struct mmsghdr m[3];
	struct iovec one = {buf, 10};
	memset(m, 0, sizeof m);
	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &one;
		m[i].msg_hdr.msg_iovlen = 1;
	}
	say("recvmmsg at EOF", recvmmsg(b, m, 3, 0, NULL));
	say("EPIPE", send(a, "x", 1, MSG_NOSIGNAL));
	say("sendmmsg EPIPE", sendmmsg(a, m, 2, MSG_NOSIGNAL));
	closefrom(a);
	say("closefrom", fcntl(b, F_GETFD));
	say("eventfd", eventfd(0, 0) >= 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	connected();
	warm();
	text();
	names();
	messages();
	numbers();
	all_numbers();
	waits();
	passed();
	end();
	return 0;
}
