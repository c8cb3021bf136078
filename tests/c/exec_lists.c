/* exec with argument lists longer than the registers: each stage execs the next by another function
 * and prints the arguments that it got. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int stage = argc > 1 ? atoi(argv[1]) : 0;
	for (int i = 1; i < argc; i++)
		printf("%s ", argv[i]);
	printf("env=%s\n", getenv("STAGE") ? getenv("STAGE") : "-");
	fflush(stdout);
	char *self = "/proc/self/exe";
	char *env[] = {"STAGE=list", NULL, NULL};
	if (getenv("LD_PRELOAD")) {
		env[1] = malloc(strlen(getenv("LD_PRELOAD")) + 12);
		sprintf(env[1], "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
	}
	char *next[] = {argv[0], "4", "by", "execve", NULL};
	switch (stage) {
	case 0:
		execl(self, argv[0], "1", "a", "b", "c", "d", "e", "f", "g", "h", NULL);
		break;
	case 1:
		execl("/does/not/exist", argv[0], NULL);
		execlp("env", "env", "STAGE=path", argv[0], "2", "3", "4", "5", "6", "7", NULL);
		break;
	case 2:
		execle(self, argv[0], "3", "a", "b", "c", "d", "e", "f", NULL, env);
		break;
	case 3:
		if (vfork() == 0) {
			char *child[] = {"echo", "from a vfork child", NULL};
			execvp("echo", child);
			_exit(1);
		}
		wait(NULL);
		execve(self, next, env);
		break;
	default:
		_exit(7);
	}
	perror("exec");
	return 1;
}
