/* Children that come to life without fork handlers (a raw clone, _Fork) and children in their
 * parent's memory (vfork): descriptors are closed and their numbers used again, and each process
 * must find what it put there itself. The output must be the same bare and with the library. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int kept;

/* The child puts a file in the place of the parent's socket. */
static int child(void)
{
	char byte = 'x';
	close(kept);
	if (open("/dev/zero", O_RDWR) != kept)
		return 1;
	if (read(kept, &byte, 1) != 1 || byte != 0)
		return 2;
	if (write(kept, "abc", 3) != 3)
		return 3;
	if (dup2(kept, kept + 1) != kept + 1)
		return 4;
	return close_range(kept, kept + 1, 0) ? 5 : 0;
}

static void parent(const char *how, int pid)
{
	int status, kind = -1;
	socklen_t len = sizeof kind;
	waitpid(pid, &status, 0);
	getsockopt(kept, SOL_SOCKET, SO_TYPE, &kind, &len);
	printf("%s: child %d, parent has a stream socket %d\n", how, WEXITSTATUS(status),
	       kind == SOCK_STREAM);
	fflush(stdout);
}

int main(void)
{
	int pid;
	kept = socket(AF_INET, SOCK_STREAM, 0);
	if ((pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0)
		_exit(child());
	parent("clone", pid);
	if ((pid = _Fork()) == 0)
		_exit(child());
	parent("_Fork", pid);
	if ((pid = fork()) == 0)
		_exit(child());
	parent("fork", pid);
	if ((pid = vfork()) == 0)
		_exit(child());
	parent("vfork", pid);
	return 0;
}
