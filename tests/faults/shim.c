/* Preloaded into the nodes of the fault harness. It stands between a process and the system's calls, and knows the files
 * below one folder (those of SQLite) and, where told, the sockets (those of PostgreSQL and NATS).
 *
 * What it does is read from a page of shared memory, which the harness writes at any time:
 *   kill_at   counts down with each write, sync and send; at one the process is killed, in the middle of that write
 *   full      no write below the folder finds space
 *   clock_ns  is added to the time of day
 * Where a journal is named, each write, truncation, removal and sync below the folder is appended to it, for a replay
 * that drops what was never synced.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FDS 65536
#define NAME 64
#define MARK 0x6c616e72756f6a21 /* "!journal": a kill may leave half a record before the next process's first */

struct control {
	int64_t kill_at, full, clock_ns, writes;
};

struct record {
	int64_t mark, op, offset, length;
	char name[NAME];
};

static struct control idle;
static struct control *control = &idle;
static char folder[4096];
static size_t folder_length;
static int journal = -1, sockets;
static char names[FDS][NAME];

static int (*real_clock)(clockid_t, struct timespec *);

void faults_attach(const char *page, const char *below, const char *journal_path, int with_sockets)
{
	int fd = syscall(SYS_openat, AT_FDCWD, page, O_RDWR | O_CLOEXEC, 0);
	void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (mapped != MAP_FAILED)
		control = mapped;
	strncpy(folder, below, sizeof folder - 1);
	folder_length = strlen(folder);
	if (journal_path && *journal_path)
		journal = syscall(SYS_openat, AT_FDCWD, journal_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	sockets = with_sockets;
}

static int known(int fd)
{
	return fd >= 0 && fd < FDS && names[fd][0];
}

static void note(char op, const char *name, off_t offset, const void *data, size_t length)
{
	if (journal < 0)
		return;
	struct record record = {.mark = MARK, .op = op, .offset = offset, .length = length};
	strncpy(record.name, name, NAME - 1);
	struct iovec parts[] = {{&record, sizeof record}, {(void *)data, data ? length : 0}};
	syscall(SYS_writev, journal, parts, data ? 2 : 1);
}

static void end(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* Whether this is the write at which to be killed. */
static int last(void)
{
	__atomic_add_fetch(&control->writes, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&control->kill_at, __ATOMIC_RELAXED) <= 0)
		return 0;
	return __atomic_sub_fetch(&control->kill_at, 1, __ATOMIC_RELAXED) == 0;
}

static int full(void)
{
	if (!__atomic_load_n(&control->full, __ATOMIC_RELAXED))
		return 0;
	errno = ENOSPC;
	return 1;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset)
{
	if (!known(fd))
		return syscall(SYS_pwrite64, fd, data, length, offset);
	if (full())
		return -1;
	if (last()) {
		note('W', names[fd], offset, data, length / 2);
		syscall(SYS_pwrite64, fd, data, length / 2, offset);
		end();
	}
	note('W', names[fd], offset, data, length);
	return syscall(SYS_pwrite64, fd, data, length, offset);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
	return pwrite64(fd, data, length, offset);
}

ssize_t write(int fd, const void *data, size_t length)
{
	if (!known(fd))
		return syscall(SYS_write, fd, data, length);
	if (full())
		return -1;
	off_t offset = lseek(fd, 0, SEEK_CUR);
	if (last()) {
		note('W', names[fd], offset, data, length / 2);
		syscall(SYS_write, fd, data, length / 2);
		end();
	}
	note('W', names[fd], offset, data, length);
	return syscall(SYS_write, fd, data, length);
}

int ftruncate64(int fd, off_t length)
{
	if (known(fd))
		note('T', names[fd], length, NULL, 0);
	return syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length)
{
	return ftruncate64(fd, length);
}

static int synced(int fd, long number)
{
	if (known(fd) && last())
		end();
	int code = syscall(number, fd);
	if (known(fd) && code == 0)
		note('S', names[fd], 0, NULL, 0);
	return code;
}

int fsync(int fd)
{
	return synced(fd, SYS_fsync);
}

int fdatasync(int fd)
{
	return synced(fd, SYS_fdatasync);
}

int unlink(const char *path)
{
	if (folder_length && !strncmp(path, folder, folder_length))
		note('U', path + folder_length, 0, NULL, 0);
	return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int opened(int fd, const char *path)
{
	if (fd >= 0 && fd < FDS && folder_length && !strncmp(path, folder, folder_length))
		strncpy(names[fd], path + folder_length, NAME - 1);
	return fd;
}

static int open_at(int at, const char *path, int flags, va_list more)
{
	int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
	return opened(syscall(SYS_openat, at, path, flags, mode), path);
}

#define OPEN(name)                                              \
	int name(const char *path, int flags, ...)              \
	{                                                       \
		va_list more;                                   \
		va_start(more, flags);                          \
		int fd = open_at(AT_FDCWD, path, flags, more);  \
		va_end(more);                                   \
		return fd;                                      \
	}
#define OPEN_AT(name)                                           \
	int name(int at, const char *path, int flags, ...)      \
	{                                                       \
		va_list more;                                   \
		va_start(more, flags);                          \
		int fd = open_at(at, path, flags, more);        \
		va_end(more);                                   \
		return fd;                                      \
	}
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

int close(int fd)
{
	if (known(fd))
		names[fd][0] = 0;
	return syscall(SYS_close, fd);
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
	/* One byte is how an event loop wakes itself. */
	if (sockets && length > 1 && last()) {
		syscall(SYS_sendto, fd, data, length / 2, flags, NULL, 0);
		end();
	}
	return syscall(SYS_sendto, fd, data, length, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (sockets && last())
		end();
	return syscall(SYS_sendmsg, fd, message, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!real_clock)
		real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int code = real_clock(clock, now);
	int64_t wrong = __atomic_load_n(&control->clock_ns, __ATOMIC_RELAXED);
	if (code || !wrong || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return code;
	int64_t sum = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + wrong;
	now->tv_sec = sum / INT64_C(1000000000);
	now->tv_nsec = sum % INT64_C(1000000000);
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	(void)zone;
	struct timespec precise;
	int code = clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return code;
}

time_t time(time_t *out)
{
	struct timespec precise;
	clock_gettime(CLOCK_REALTIME, &precise);
	if (out)
		*out = precise.tv_sec;
	return precise.tv_sec;
}
