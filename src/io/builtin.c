/* builtin.c - finds what comes with the library, from any directory, installed or not. */
#define _GNU_SOURCE /* dladdr, readlink */
#include "io/builtin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/hub.h"
#include "io/show.h"

/* From CMake: LIPSCOPE_DATA_BESIDE_BIN and _LIB, the ways from bin/ and lib/ to the
 * installed data; LIPSCOPE_DATA_INSTALLED, where they were configured to be, or empty. */

static const struct {
    const char *name, *file;
} builtin[] = {{"gpt2-nano", "gpt2-nano"}, {"lighthouse", "text/lighthouse.txt"}};
enum { BUILTIN = sizeof builtin / sizeof *builtin, PLACES = 5 };

typedef char place[LIPSC_PATH_ROOM];

static const char prefix[] = "builtin:";

static void cut_name(place path) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
}

/* The folder of the file that this code is in, without the last slash: the shared library,
 * or else the program as it was called; empty when it is the other, or not told. */
static void own_folder(int shared, place folder) {
    static const char here;
    Dl_info info;
    folder[0] = '\0';
    if (!dladdr(&here, &info) || !info.dli_fname || !strchr(info.dli_fname, '/') ||
        (strstr(info.dli_fname, ".so") != NULL) != shared)
        return;
    char *whole = realpath(info.dli_fname, NULL);
    if (whole && strlen(whole) < LIPSC_PATH_ROOM) memcpy(folder, whole, strlen(whole) + 1);
    free(whole);
    cut_name(folder);
}

static void library_folder(place folder) { own_folder(1, folder); }

/* The folder of the program; /proc is not there in every root. */
static void program_folder(place folder) {
    const ssize_t size = readlink("/proc/self/exe", folder, LIPSC_PATH_ROOM - 1);
    folder[size > 0 ? size : 0] = '\0';
    cut_name(folder);
    if (!*folder) own_folder(0, folder);
}

/* folder/name, or folder alone when name is NULL.  0 when that is too long. */
static int join(place path, const char *folder, const char *name) {
    const int size = snprintf(path, LIPSC_PATH_ROOM, "%s%s%s", folder, name ? "/" : "",
                              name ? name : "");
    return size > 0 && size < LIPSC_PATH_ROOM;
}

/* Folders that may hold the data; how many. */
static size_t list_places(place places[PLACES]) {
    const char *told = getenv("LIPSCOPE_DATA");
    place here;
    size_t count = 0;
    if (told && *told) return (size_t)join(places[0], told, NULL);
    program_folder(here);
    if (*here) {
        count += (size_t)join(places[count], here, LIPSCOPE_DATA_BESIDE_BIN);
        count += (size_t)join(places[count], here, "data");
    }
    library_folder(here);
    if (*here) {
        count += (size_t)join(places[count], here, LIPSCOPE_DATA_BESIDE_LIB);
        count += (size_t)join(places[count], here, "data");
    }
    if (*LIPSCOPE_DATA_INSTALLED)
        count += (size_t)join(places[count], LIPSCOPE_DATA_INSTALLED, NULL);
    return count;
}

static lipsc_status refuse_absent(const char *name, size_t count, place places[PLACES],
                                  lipsc_error *err) {
    char list[PLACES * (LIPSC_SHOWN_PATH + 2)] = "", shown[LIPSC_SHOWN_PATH];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        lipsc_show_path(places[i], shown);
        const int more =
            snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", shown);
        if (more > 0) used += (size_t)more;
    }
    return lipsc_fail(err, LIPSC_E_IO,
                      "%s%s is not there (LIPSCOPE_DATA can name its folder); looked in %s",
                      prefix, name, list);
}

lipsc_status lipsc_builtin_path(const char *name, char path[LIPSC_PATH_ROOM],
                                lipsc_error *err) {
    place places[PLACES];
    char shown[LIPSC_SHOWN_NAME];
    size_t which = 0;
    while (which < BUILTIN && strcmp(builtin[which].name, name)) which++;
    if (which == BUILTIN) {
        lipsc_show_name(name, shown);
        return lipsc_fail(err, LIPSC_E_ARG, "%s%s is not known: there are %s%s and %s%s",
                          prefix, shown, prefix, builtin[0].name, prefix, builtin[1].name);
    }
    const size_t count = list_places(places);
    for (size_t i = 0; i < count; i++)
        if (join(path, places[i], builtin[which].file) && !access(path, R_OK))
            return LIPSC_OK;
    return refuse_absent(name, count, places, err);
}

int lipsc_is_builtin(const char *word) { return !strncmp(word, prefix, sizeof prefix - 1); }

lipsc_status lipsc_path_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                const char **path, lipsc_error *err) {
    *path = word;
    if (!lipsc_is_builtin(word)) return LIPSC_OK;
    *path = room;
    return lipsc_builtin_path(word + sizeof prefix - 1, room, err);
}

lipsc_status lipsc_model_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                 const char **path, lipsc_error *err) {
    char *found, shown[LIPSC_SHOWN_PATH];
    lipsc_status status = lipsc_path_resolve(word, room, path, err);
    if (status || *path != word || !access(word, F_OK) || !lipsc_hub_is_name(word))
        return status;
    status = lipsc_hub_find(word, &found, err);
    if (status) return status;
    *path = room;
    lipsc_show_path(found, shown);
    if (!join(room, found, NULL))
        status = lipsc_fail(err, LIPSC_E_RANGE, "%s: the path is too long", shown);
    lipsc_release(found);
    return status;
}
