/* source.c - what the options of a source must not contradict, and what is said of it. */
#include "source.h"

#include <stdio.h>
#include <string.h>

#include "io/show.h"
#include "window.h"

int cli_source_check(const cli_command *self, const lipsc_source_options *o) {
    if (o->special && !o->text && !o->ids)
        return cli_wrong_use(self, "'--special' has no meaning without --text or --ids");
    if (o->tokenizer && !o->text && !o->special)
        return cli_wrong_use(self, "'--tokenizer' has no meaning without --text");
    return CLI_RUN;
}

void cli_source_say(const cli_command *self, const char *spec,
                    const cli_source_options *options, const cli_source *source) {
    (void)spec;
    (void)options;
    for (size_t i = 0; i < source->remark_count; i++)
        cli_note(self, "%s", source->remarks[i]);
}

void cli_utf8_say(const cli_command *self, const char *path, size_t malformed,
                  size_t size) {
    char room[LIPSC_SHOWN_PATH];
    if (!malformed) return;
    lipsc_show_path(path, room);
    fprintf(stderr,
            "lipscope %s: %s: not all of it is UTF-8: %zu of %zu bytes (%.2g %%) are read "
            "as U+FFFD\n",
            self->name, strcmp(path, "-") ? room : "standard input", malformed, size,
            100.0 * (double)malformed / (double)size);
}

int cli_window_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source_options *options,
                     const cli_source *source, const cli_window *window) {
    lipsc_error err;
    const lipsc_status status = lipsc_window_check(
        spec, info, options, source, window->longest, window->n, window->w, &err);
    if (status == LIPSC_E_ARG) return cli_wrong_use(self, "%s", err.text);
    return status ? cli_failure(self, "%s", err.text) : CLI_RUN;
}

lipsc_status cli_window_acts(const cli_source *source, size_t start, size_t n,
                             lipsc_model *model, lipsc_dtype dtype, int threads,
                             size_t layer, lipsc_acts **acts, lipsc_error *err) {
    lipsc_device *device;
    lipsc_status status = lipsc_device_open(NULL, threads, &device, err);
    if (status) return status;
    status = lipsc_window_acts(source, start, n, model, dtype, device, layer, acts, err);
    lipsc_device_close(device);
    return status;
}
