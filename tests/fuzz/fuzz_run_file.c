/* fuzz_run_file.c - any bytes as a run file.  What is read has rows of the fields that it
 * says, sound texts, and fits; each refusal has a sentence.  SQLite itself is not ours:
 * seeds are whole databases, and changes in them are hostile rows as well as damaged pages.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/rows_file.h"
#include "sentence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], path[80];

static void remove_folder(void) {
    static const char *const beside[] = {"", "-journal", "-wal", "-shm", "-lock"};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char file[96];
        snprintf(file, sizeof file, "%s%s", path, beside[i]);
        unlink(file);
    }
    rmdir(folder);
}

/* SQLite wants a file: one in memory, made once, written anew for each input. */
static void put(const uint8_t *data, size_t size) {
    static int fd = -1;
    if (fd < 0) {
        snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder)) abort();
        snprintf(path, sizeof path, "%s/run.db", folder);
        atexit(remove_folder);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    }
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size))
        abort();
}

/* Returns how many rows were read, at most as many as it has. */
static size_t read_rows(size_t most) {
    lipsc_rows_file file;
    lipsc_error err = {0};
    size_t count = 0;
    if (lipsc_rows_file_open_some(path, most, &file, &err)) {
        check_sentence(&err);
    } else {
        count = file.count;
        if (count && !file.rows) abort();
        if (!file.command || !file.created || !file.version || !file.settings) abort();
        if (!lipsc_rows_file_every(&file)) abort();
    }
    lipsc_rows_file_close(&file);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    put(data, size);
    const size_t all = read_rows(SIZE_MAX);
    if (all > 1 && read_rows(1) > all) abort(); /* a sample of them */
    return 0;
}
