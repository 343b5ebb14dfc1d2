/* folder.h - a folder in memory for what is only read from files: made once, its files
 * written anew for each input. */
#ifndef LIPSC_FUZZ_FOLDER_H
#define LIPSC_FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lipscope.h"

static char folder[64];

static void folder_remove(void) {
    char line[96];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    if (system(line)) perror(folder);
}

/* The path of a file there, valid until the next call. */
static const char *in_folder(const char *name) {
    static char path[128];
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder)) abort();
        atexit(folder_remove);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void folder_put(const char *name, const void *bytes, size_t size) {
    const int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd)) abort();
}

/* Whatever is refused has a code and a sentence. */
static void check_sentence(const lipsc_error *err) {
    if (!err->code || !err->text[0] || !memchr(err->text, '\0', sizeof err->text)) abort();
}

#endif
