/* hub.c - the layout of the local Hugging Face cache:
 *
 *     CACHE/models--ORG--NAME/refs/main            the commit that is current
 *     CACHE/models--ORG--NAME/snapshots/COMMIT/    the files of a commit */
#define _POSIX_C_SOURCE 200809L /* opendir, access */
#include "io/hub.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 192, COMMIT = 128 };

int lipsc_hub_is_name(const char *word) {
    size_t slashes = 0, size = strlen(word);
    if (size == 0 || size > LONGEST || word[size - 1] == '/' || word[size - 1] == '.')
        return 0;
    for (const char *p = word; *p; p++) {
        const int first = p == word || p[-1] == '/';
        if (first && (*p == '.' || *p == '/' || *p == '-')) return 0;
        if (*p == '/') slashes++;
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./",
                    *p))
            return 0;
    }
    return slashes <= 1;
}

/* The words one after the other, to be released; NULL without memory. */
static char *joined(size_t count, ...) {
    va_list words;
    size_t size = 1;
    va_start(words, count);
    for (size_t i = 0; i < count; i++) size += strlen(va_arg(words, const char *));
    va_end(words);
    char *text = lipsc_alloc(size, 1), *at = text;
    va_start(words, count);
    for (size_t i = 0; text && i < count; i++) {
        const char *word = va_arg(words, const char *);
        memcpy(at, word, strlen(word));
        at += strlen(word);
    }
    va_end(words);
    if (text) *at = '\0';
    return text;
}

static char *cache_folder(void) {
    static const struct {
        const char *variable, *rest;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value) return joined(2, value, places[i].rest);
    }
    return joined(1, ".");
}

/* "ORG/NAME" -> "models--ORG--NAME" below the cache */
static char *model_folder(const char *cache, const char *name) {
    const char *slash = strchr(name, '/');
    if (!slash) return joined(3, cache, "/models--", name);
    char org[LONGEST + 1];
    snprintf(org, sizeof org, "%.*s", (int)(slash - name), name);
    return joined(5, cache, "/models--", org, "--", slash + 1);
}

static int plain_commit(const char *text) {
    return *text && strspn(text, "0123456789abcdef") == strlen(text);
}

/* The commit that refs/main names; 0 when there is none. */
static int current_commit(const char *folder, char commit[COMMIT]) {
    char *path = joined(2, folder, "/refs/main");
    FILE *file = path ? fopen(path, "r") : NULL;
    lipsc_release(path);
    if (!file) return 0;
    const size_t size = fread(commit, 1, COMMIT - 1, file);
    fclose(file);
    commit[size] = '\0';
    commit[strcspn(commit, " \r\n")] = '\0';
    return plain_commit(commit);
}

/* The only snapshot; 0 when there is none or more than one. */
static int only_commit(const char *folder, char commit[COMMIT]) {
    char *path = joined(2, folder, "/snapshots");
    DIR *dir = path ? opendir(path) : NULL;
    lipsc_release(path);
    if (!dir) return 0;
    size_t found = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!plain_commit(entry->d_name) || strlen(entry->d_name) >= COMMIT) continue;
        strncpy(commit, entry->d_name, COMMIT);
        found++;
    }
    closedir(dir);
    return found == 1;
}

static char *snapshot(const char *folder) {
    char commit[COMMIT];
    if (!current_commit(folder, commit) && !only_commit(folder, commit)) return NULL;
    char *path = joined(3, folder, "/snapshots/", commit);
    if (path && !access(path, R_OK)) return path;
    lipsc_release(path);
    return NULL;
}

lipsc_status lipsc_hub_find(const char *name, char **dir, lipsc_error *err) {
    char *cache = cache_folder(), *folder = cache ? model_folder(cache, name) : NULL;
    char shown[LIPSC_SHOWN_NAME], place[LIPSC_SHOWN_PATH];
    lipsc_status status = LIPSC_OK;
    *dir = folder ? snapshot(folder) : NULL;
    lipsc_show_name(name, shown);
    lipsc_show_path(cache ? cache : "", place);
    if (!folder)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a path");
    else if (!*dir)
        status = lipsc_fail(err, LIPSC_E_IO,
                            "%s: no such file or folder, and no model of that name in the "
                            "Hugging Face cache %s; 'hf download %s' fetches it",
                            shown, place, shown);
    lipsc_release(cache);
    lipsc_release(folder);
    return status;
}
