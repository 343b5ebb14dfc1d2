/* fuzz_args.c - any bytes as a command line, words ended by NUL, along a table with every
 * kind of option: a value that is accepted lies within its limits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "core/mem.h"
#include "ranks.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What it says a million times is thrown away: not one system call for each word of it. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    return setvbuf(stderr, NULL, _IOFBF, 1 << 16);
}

/* The table here has no --device: nobody is to open one. */
lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                               lipsc_error *err) {
    (void)name, (void)threads, (void)out, (void)err;
    abort();
}
lipsc_status lipsc_device_share(lipsc_ranks *ranks, const char *name, int threads,
                                lipsc_device **out, lipsc_error *err) {
    (void)ranks, (void)name, (void)threads, (void)out, (void)err;
    abort();
}
void lipsc_device_close(lipsc_device *device) { (void)device; }
lipsc_ranks *cli_ranks(void) { return NULL; }
int cli_ranks_threads(void) { return 0; }
const char *cli_ranks_device(const char *name, char room[32]) {
    (void)room;
    return name;
}

typedef struct {
    int flag, choice;
    const char *text;
    size_t size;
    uint64_t seed;
    double real, maybe;
    cli_sizes sizes;
    cli_texts texts;
} settings;

#define AT(field) .name = #field, .offset = offsetof(settings, field), .help = "one of each"
static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Options"},
    {.kind = CLI_FLAG, .letter = 'f', AT(flag)},
    {.kind = CLI_TEXT, .letter = 't', .value = "T", AT(text)},
    {.kind = CLI_SIZE, .letter = 's', .value = "N", .min = 2, .max = 1000, AT(size)},
    {.kind = CLI_SEED, .value = "N", AT(seed)},
    {.kind = CLI_REAL,
     .letter = 'r',
     .value = "R",
     .min = -1,
     .max = 7.5,
     .wanted = "a number from -1 to 7.5",
     AT(real)},
    {.kind = CLI_MAYBE,
     .value = "R",
     .min = 0,
     .max = 1,
     .usual = 0.5,
     .wanted = "a number from 0 to 1",
     AT(maybe)},
    {.kind = CLI_CHOICE, .value = "C", .wanted = "table|tsv|json", AT(choice)},
    {.kind = CLI_SIZES, .letter = 'l', .value = "N", .min = 1, .max = 4096, AT(sizes)},
    {.kind = CLI_TEXTS, .value = "T", AT(texts)},
};

static int run(const cli_command *self, int argc, char **argv) {
    (void)self, (void)argc, (void)argv;
    return 0;
}

static const cli_command command = {.name = "fuzz",
                                    .operands = "",
                                    .summary = "one option of each kind",
                                    .about = "about",
                                    .example = "",
                                    .options = options,
                                    .option_count = sizeof options / sizeof *options,
                                    .run = run};

static void check(const settings *s) {
    if (s->size && (s->size < 2 || s->size > 1000)) abort();
    if (!(s->real >= -1 && s->real <= 7.5) || !(s->maybe >= 0 && s->maybe <= 1)) abort();
    if (s->choice < 0 || s->choice > 2 || s->flag < 0 || s->flag > 1) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 64 };
    char *words = malloc(size + 1), *argv[MOST + 1];
    int argc = 0, operands = 0;
    settings s = {0};
    if (!words) return 0;
    if (size) memcpy(words, data, size);
    words[size] = '\0';
    for (char *at = words; at < words + size && argc < MOST; at += strlen(at) + 1)
        argv[argc++] = at;
    argv[argc] = NULL;
    char *line = cli_command_line(&command, argc, argv);
    if (!line || strncmp(line, "lipscope fuzz", 13) != 0) abort();
    lipsc_release(line);
    const int code = cli_parse(&command, argc, argv, &s, &operands);
    if (code == CLI_RUN)
        check(&s);
    else if (code != CLI_DONE && code != CLI_USAGE)
        abort();
    cli_sizes_free(&s.sizes);
    free(words);
    return 0;
}
