/* cmd_devices.c - lipscope devices: where can be computed. */
#include "args.h"
#include "lipscope/table.h"
#include "screen.h"

typedef struct {
    cli_common common;
} settings;

static const cli_option options[] = {CLI_OUTPUT_OPTIONS(settings)};

static const lipsc_column columns[] = {{"name", LIPSC_COLUMN_STRING},
                                       {"usable", LIPSC_COLUMN_BOOL},
                                       {"memory", LIPSC_COLUMN_INTEGER},
                                       {"about", LIPSC_COLUMN_STRING}};

static int list(const cli_command *self, lipsc_table *t) {
    lipsc_error err;
    const size_t count = lipsc_device_count();
    for (size_t i = 0; i < count; i++) {
        lipsc_device_info info;
        if (lipsc_device_describe(i, &info)) continue;
        lipsc_table_row(t);
        lipsc_table_string(t, "name", info.name);
        lipsc_table_bool(t, "usable", info.usable);
        if (info.memory) lipsc_table_integer(t, "memory", (long long)info.memory);
        lipsc_table_string(t, "about", info.about);
    }
    return lipsc_table_end(t, &err) ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

static int show(const cli_command *self) {
    static const cli_grid_column shown[] = {{"name", CLI_LEFT},
                                            {"usable", CLI_LEFT},
                                            {"memory", CLI_RIGHT},
                                            {"about", CLI_LEFT}};
    const cli_screen screen = cli_screen_open();
    cli_grid *g = cli_grid_new(sizeof shown / sizeof *shown, shown);
    for (size_t i = 0; i < lipsc_device_count(); i++) {
        lipsc_device_info info;
        char memory[CLI_NUMBER];
        if (lipsc_device_describe(i, &info)) continue;
        cli_grid_text(g, "%s", info.name);
        cli_grid_text(g, "%s", info.usable ? "yes" : "no");
        cli_grid_text(g, "%s", info.memory ? cli_bytes((double)info.memory, memory) : "-");
        cli_grid_text(g, "%s", info.about);
    }
    const lipsc_status status = cli_grid_print(&screen, g, 1);
    cli_grid_free(g);
    return status ? cli_failure(self, "%s", lipsc_strerror(status)) : CLI_DONE;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.common = {0}};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.common.format == LIPSC_FORMAT_TABLE) return show(self);
    lipsc_table *t =
        lipsc_table_new(self->name, (lipsc_format)s.common.format, LIPSC_LAYOUT_WIDE,
                        stdout, sizeof columns / sizeof *columns, columns);
    code = t ? list(self, t) : cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_free(t);
    return code;
}

const cli_command cli_cmd_devices = {
    .name = "devices",
    .operands = "",
    .summary = "where can be computed: the CPU, GPUs, and what is missing",
    .about =
        "Lists what --device takes: the CPU, `guard` (a CPU whose memory the program\n"
        "cannot touch by itself, for tests) and GPUs, with their memory (in bytes in tsv\n"
        "and json); what cannot be used says why.",
    .example = "  $ lipscope devices\n",
    CLI_TABLE(options),
    .run = run,
};
