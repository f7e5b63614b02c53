/*
 * count_sync: an LD_PRELOAD library that writes down every sync a process asks the kernel for.
 *
 *     cc -shared -fPIC -O2 -o count_sync.so count_sync.c -ldl
 *     COUNT_SYNC_LOG=/path/to/log LD_PRELOAD=./count_sync.so program
 *
 * After each fdatasync, fsync or sync_file_range has returned, one line is appended to the log:
 *
 *     <call> <result> <path of the file behind the descriptor>
 *
 * so a line "fdatasync 0 /data/db/000004.log" means: the kernel has said that this file is on the
 * disk. The process under test may append lines of its own to the same file (say "ack 7") and the
 * order of lines is then the order of events: that is how "sync before acknowledge" is shown on
 * the real engine, where killing the process proves nothing (the page cache outlives it).
 *
 * sync_file_range is listed because it looks like a sync and is none: it flushes no metadata and
 * no drive cache. Whoever counts must not count it.
 *
 * It does not fail, delay or change any call, and it does not see syncs made by raw system calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void record(const char *call, int fd, int result)
{
	const char *log = getenv("COUNT_SYNC_LOG");
	char link[64], path[PATH_MAX], line[PATH_MAX + 64];
	ssize_t length;
	int out, saved = errno;

	if (log == NULL)
		return;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	path[length < 0 ? 0 : length] = '\0';
	length = snprintf(line, sizeof line, "%s %d %s\n", call, result, path);
	/* One write on an O_APPEND descriptor: lines of several threads do not mix. */
	out = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (out < 0 || write(out, line, (size_t)length) != length)
		abort(); /* a count with gaps would prove nothing */
	close(out);
	errno = saved;
}

int fdatasync(int fd)
{
	static int (*real)(int);
	int result;

	if (real == NULL)
		real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	result = real(fd);
	record("fdatasync", fd, result);
	return result;
}

int fsync(int fd)
{
	static int (*real)(int);
	int result;

	if (real == NULL)
		real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	result = real(fd);
	record("fsync", fd, result);
	return result;
}

int sync_file_range(int fd, off64_t offset, off64_t count, unsigned int flags)
{
	static int (*real)(int, off64_t, off64_t, unsigned int);
	int result;

	if (real == NULL)
		real = (int (*)(int, off64_t, off64_t, unsigned int))dlsym(RTLD_NEXT, "sync_file_range");
	result = real(fd, offset, count, flags);
	record("sync_file_range", fd, result);
	return result;
}
