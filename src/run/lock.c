/* lock.c - a record lock on PATH-lock.
 *
 * Not a lock inside the database: SQLite's exclusive mode would also keep readers out, who
 * want to look at a run while it goes on.  Not a file that merely exists: it would outlive
 * a killed process.  The system drops a record lock with its process, also over NFS. */
#define _POSIX_C_SOURCE 200809L
#include "run/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"

/* Whether fd is still what stands under path: its owner may have removed it between our
 * open and our lock. */
static int is_current(int fd, const char *path) {
    struct stat held, named;
    return !fstat(fd, &held) && !stat(path, &named) && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static lipsc_status refuse(const char *path, int fd, lipsc_error *err) {
    struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char who[48] = "";
    if (!fcntl(fd, F_GETLK, &other) && other.l_type != F_UNLCK && other.l_pid > 0)
        snprintf(who, sizeof who, " (process %ld)", (long)other.l_pid);
    return lipsc_fail(err, LIPSC_E_REFUSED, "%s: in use by another process%s", path, who);
}

lipsc_status lipsc_lock_take(const char *path, lipsc_lock *lock, lipsc_error *err) {
    const size_t room = strlen(path) + sizeof "-lock";
    *lock = (lipsc_lock){.fd = -1, .path = lipsc_alloc(room, 1)};
    if (!lock->path) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", path);
    snprintf(lock->path, room, "%s-lock", path);
    lipsc_status status = LIPSC_OK;
    for (int ready = 0; !ready && !status;) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (lock->fd < 0) {
            status = lipsc_fail(err, LIPSC_E_IO, "%s: cannot write beside it: %s", path,
                                strerror(errno));
        } else if (fcntl(lock->fd, F_SETLK, &whole)) {
            status = errno == EACCES || errno == EAGAIN
                         ? refuse(path, lock->fd, err)
                         : lipsc_fail(err, LIPSC_E_IO, "%s: cannot lock: %s", lock->path,
                                      strerror(errno));
        } else {
            ready = is_current(lock->fd, lock->path);
        }
        if (!ready && lock->fd >= 0) close(lock->fd);
    }
    if (status) {
        lock->fd = -1;
        lipsc_lock_drop(lock);
    }
    return status;
}

void lipsc_lock_drop(lipsc_lock *lock) {
    if (lock->fd >= 0) {
        unlink(lock->path); /* before the lock goes: nobody else's is removed */
        close(lock->fd);
    }
    lipsc_release(lock->path);
    *lock = (lipsc_lock){.fd = -1};
}
