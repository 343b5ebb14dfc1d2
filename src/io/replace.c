/* replace.c - a file that is written whole or not at all. */
#define _XOPEN_SOURCE 700 /* POSIX 2008 with realpath */
#include "io/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

typedef struct {
    const char *path; /* as the caller wrote it, for errors */
    lipsc_file_content *content;
    const void *ctx;
} job;

int lipsc_write_all(int fd, const void *bytes, size_t count) {
    const char *from = bytes;
    while (count) {
        const ssize_t done = write(fd, from, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        from += done;
        count -= (size_t)done;
    }
    return 0;
}

/* 0 or the reason: a file that was not written whole never counts as written. */
static int put_content(const job *p, int fd) {
    errno = 0;
    return !p->content(fd, p->ctx) ? 0 : errno ? errno : EIO;
}

static lipsc_status write_through(const job *p, lipsc_error *err) {
    /* O_APPEND: standard output may be a file that already holds something. */
    const int fd = open(p->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return lipsc_fail_system(err, p->path, "open for writing", errno);
    int failed = put_content(p, fd);
    if (close(fd) && !failed) failed = errno;
    return failed ? lipsc_fail_system(err, p->path, "write", failed) : LIPSC_OK;
}

/* A new file in the folder of target, its path in temporary.  The mode is subject to
 * the umask as for any new file, which mkstemp would not do. */
static int open_temporary(const char *target, char *temporary, size_t room) {
    const char *slash = strrchr(target, '/');
    const int folder = slash ? (int)(slash - target) + 1 : 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(temporary, room, "%.*s.lipscope-%ld-%d.tmp", folder, target,
                 (long)getpid(), attempt);
        const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* The new name must survive a power cut too.  Some file systems cannot do it: no error. */
static void sync_folder(char *file) {
    char *slash = strrchr(file, '/');
    if (slash) slash[slash == file] = '\0'; /* "/file" is in "/" */
    const int fd = open(slash ? file : ".", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static lipsc_status replace(const job *p, const char *target, const struct stat *old,
                            lipsc_error *err) {
    const size_t room = strlen(target) + 64;
    char *temporary = lipsc_alloc(room, 1);
    if (!temporary) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a path");
    const int fd = open_temporary(target, temporary, room);
    if (fd < 0) {
        const int reason = errno;
        lipsc_release(temporary);
        return lipsc_fail_system(err, p->path, "create", reason);
    }
    int failed = old && fchmod(fd, old->st_mode & 0777) ? errno : put_content(p, fd);
    if (!failed && fsync(fd)) failed = errno;
    if (close(fd) && !failed) failed = errno;
    if (!failed && rename(temporary, target)) failed = errno;
    if (failed)
        unlink(temporary);
    else
        sync_folder(temporary);
    lipsc_release(temporary);
    return failed ? lipsc_fail_system(err, p->path, "write", failed) : LIPSC_OK;
}

/* Standard output is written directly even where it is redirected to a regular file:
 * replacing that file would cut it off from whoever else writes to it. */
static int is_descriptor_path(const char *path) {
    static const char *const begins[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/",
                                         "/proc/"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (strncmp(path, begins[i], strlen(begins[i])) == 0) return 1;
    return 0;
}

lipsc_status lipsc_file_replace(const char *path, lipsc_file_content *content,
                                const void *ctx, lipsc_error *err) {
    const job here = {path, content, ctx}, *p = &here;
    struct stat info;
    if (stat(p->path, &info)) {
        if (errno != ENOENT) return lipsc_fail_system(err, p->path, "write", errno);
        return replace(p, p->path, NULL, err);
    }
    if (S_ISDIR(info.st_mode)) return lipsc_fail_system(err, p->path, "write", EISDIR);
    if (!S_ISREG(info.st_mode) || is_descriptor_path(p->path)) return write_through(p, err);

    char *target = realpath(p->path, NULL); /* a link stays, what it names is replaced */
    if (!target) return lipsc_fail_system(err, p->path, "write", errno);
    const lipsc_status status = replace(p, target, &info, err);
    free(target);
    return status;
}
