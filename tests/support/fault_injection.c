/* Makes the n-th system call that changes a folder's files fail, or kills the process there.
 *
 * Loaded with LD_PRELOAD. It counts the calls that write, create, rename, cut, sync or delete files below a folder,
 * also those of SQLite; it knows no more of the program than that. The counter is shared with forked processes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KILL = -1, KILL_HALFWAY = -2 };

static char folder[PATH_MAX];
static long after;
static int failure, lasting;
static long *counter;

/* From now on count calls below `below`; call number `number` (from 1; 0: none) fails with `error`. */
void fault_arm(const char *below, long number, int error, int stays) {
    if (!counter)
        counter = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof folder, "%s", below);
    *counter = 0;
    after = number, failure = error, lasting = stays;
}

long fault_count(void) { return counter ? *counter : 0; }

static int below_folder(const char *path) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int of_folder(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return below_folder(path);
}

/* 0, or what is to go wrong with this call. */
static int due(int ours) {
    if (!ours || !counter)
        return 0;
    long number = __sync_add_and_fetch(counter, 1);
    if (!after || number < after || (number > after && !lasting))
        return 0;
    if (failure == KILL)
        kill(getpid(), SIGKILL);
    return failure;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(wrong) do { errno = (wrong) == KILL_HALFWAY ? EIO : (wrong); return -1; } while (0)

#define WRITES(name, parameters, arguments, half) \
    ssize_t name parameters { \
        REAL(name); \
        int wrong = due(folder[0] && of_folder(file)); \
        if (wrong == KILL_HALFWAY) { half; kill(getpid(), SIGKILL); } \
        if (wrong) FAIL(wrong); \
        return real arguments; \
    }
WRITES(write, (int file, const void *data, size_t size), (file, data, size), (void)!real(file, data, size / 2))
WRITES(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at),
       (void)!real(file, data, size / 2, at))
WRITES(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at),
       (void)!real(file, data, size / 2, at))

#define CHANGES(name, parameters, arguments, ours) \
    int name parameters { \
        REAL(name); \
        int wrong = due(folder[0] && (ours)); \
        if (wrong == KILL_HALFWAY) kill(getpid(), SIGKILL); \
        if (wrong) FAIL(wrong); \
        return real arguments; \
    }
CHANGES(fsync, (int file), (file), of_folder(file))
CHANGES(fdatasync, (int file), (file), of_folder(file))
CHANGES(ftruncate, (int file, off_t size), (file, size), of_folder(file))
CHANGES(ftruncate64, (int file, off64_t size), (file, size), of_folder(file))
CHANGES(posix_fallocate, (int file, off_t at, off_t size), (file, at, size), of_folder(file))
CHANGES(rename, (const char *from, const char *to), (from, to), below_folder(to))
CHANGES(unlink, (const char *path), (path), below_folder(path))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode), below_folder(path))

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        int wrong = due(folder[0] && (flags & O_CREAT) && below_folder(path)); \
        if (wrong == KILL_HALFWAY) kill(getpid(), SIGKILL); \
        if (wrong) FAIL(wrong); \
        return real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
