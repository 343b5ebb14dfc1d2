/* data.c - finds what comes with the program, from any directory, installed or not. */
#define _POSIX_C_SOURCE 200809L
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/hub.h"
#include "io/show.h"

/* LIPSCOPE_DATA_BESIDE: the way from bin/ to the installed data; LIPSCOPE_DATA_INSTALLED:
 * where they were configured to be.  Both come from CMake. */

static const struct {
    const char *name, *file;
} builtin[] = {{"gpt2-nano", "gpt2-nano"}, {"lighthouse", "text/lighthouse.txt"}};
enum { BUILTIN = sizeof builtin / sizeof *builtin, PLACES = 3 };

static const char prefix[] = "builtin:";

/* The folder of this program, without the last slash; empty when the system does not tell.
 */
static void program_folder(char folder[CLI_DATA_PATH]) {
    const ssize_t size = readlink("/proc/self/exe", folder, CLI_DATA_PATH - 1);
    folder[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
}

/* folder/name, or folder alone when name is NULL.  0 when that is too long. */
static int join(char path[CLI_DATA_PATH], const char *folder, const char *name) {
    const int size =
        snprintf(path, CLI_DATA_PATH, "%s%s%s", folder, name ? "/" : "", name ? name : "");
    return size > 0 && size < CLI_DATA_PATH;
}

/* Folders that may hold the data; how many. */
static size_t list_places(char places[PLACES][CLI_DATA_PATH]) {
    const char *told = getenv("LIPSCOPE_DATA");
    char here[CLI_DATA_PATH];
    size_t count = 0;
    if (told && *told) return (size_t)join(places[0], told, NULL);
    program_folder(here);
    if (*here) {
        count += (size_t)join(places[count], here, LIPSCOPE_DATA_BESIDE);
        count += (size_t)join(places[count], here, "data");
    }
    return count + (size_t)join(places[count], LIPSCOPE_DATA_INSTALLED, NULL);
}

static lipsc_status refuse_absent(const char *name, size_t count,
                                  char places[PLACES][CLI_DATA_PATH], lipsc_error *err) {
    char shown[PLACES][LIPSC_SHOWN_PATH] = {"", "", ""};
    for (size_t i = 0; i < count; i++) lipsc_show_path(places[i], shown[i]);
    return lipsc_fail(err, LIPSC_E_IO,
                      "%s%s is not there (LIPSCOPE_DATA can name its folder); looked in "
                      "%s%s%s%s%s",
                      prefix, name, shown[0], count > 1 ? ", " : "", shown[1],
                      count > 2 ? ", " : "", shown[2]);
}

lipsc_status cli_data_path(const char *name, char path[CLI_DATA_PATH], lipsc_error *err) {
    char places[PLACES][CLI_DATA_PATH], shown[LIPSC_SHOWN_NAME];
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

int cli_is_builtin(const char *word) { return !strncmp(word, prefix, sizeof prefix - 1); }

lipsc_status cli_data_resolve(const char *word, char room[CLI_DATA_PATH], const char **path,
                              lipsc_error *err) {
    *path = word;
    if (!cli_is_builtin(word)) return LIPSC_OK;
    *path = room;
    return cli_data_path(word + sizeof prefix - 1, room, err);
}

lipsc_status cli_model_resolve(const char *word, char room[CLI_DATA_PATH],
                               const char **path, lipsc_error *err) {
    char *found, shown[LIPSC_SHOWN_PATH];
    lipsc_status status = cli_data_resolve(word, room, path, err);
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
