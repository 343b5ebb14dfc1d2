/* args.h - commands and options as tables: one table is parsed and printed as help.
 *
 * A command is one file cmd_NAME.c that defines `const cli_command cli_cmd_NAME`, and one
 * line in commands.h.  Its options fill a struct of its own, found by offset. */
#ifndef LIPSC_CLI_ARGS_H
#define LIPSC_CLI_ARGS_H

#include <float.h>
#include <stddef.h>
#include <stdio.h>

#include "lipscope.h"
#include "numbers.h"

/* What the program returns (see also `lipscope --help`). */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_CONVERGED = 3,
    CLI_ABOVE_LIMIT = 4, /* done, but a limit that was asked for is exceeded */
    CLI_UNCHECKED = 5    /* `check` cannot check this                        */
};

typedef enum {
    CLI_GROUP,  /* a heading in the help                                        */
    CLI_FLAG,   /* int, set to 1                                                */
    CLI_TEXT,   /* const char *                                                 */
    CLI_SIZE,   /* size_t, min .. max                                           */
    CLI_SEED,   /* uint64_t                                                     */
    CLI_REAL,   /* double, min .. max; `wanted` says so in words                */
    CLI_MAYBE,  /* double, min .. max: the next word if that is a number, else `usual` */
    CLI_CHOICE, /* int or an enum: place in `wanted`, which is like "table|tsv|json",
                 * and the first of them is `min`                               */
    CLI_SIZES,  /* cli_sizes, each element in min .. max                        */
    CLI_TEXTS   /* cli_texts: may be given several times                        */
} cli_kind;

typedef struct {
    cli_kind kind;
    char letter;       /* one-letter form, 0: none                             */
    const char *name;  /* without the dashes; of a group: the heading          */
    const char *value; /* how the value is called in the help                  */
    size_t offset;     /* of the member that it fills                          */
    double min, max;
    double usual;       /* of CLI_MAYBE                                         */
    int nonzero;        /* of CLI_REAL: 0 is refused, as `wanted` says          */
    const char *wanted; /* see cli_kind                                         */
    const char *help;   /* NULL: another spelling, not listed                   */
} cli_option;

/* One entry: a kind without its CLI_, the name, how the value is called, the member of
 * `settings` that it fills, and the rest by name. */
#define CLI_OPTION(settings, kind_, name_, value_, member, ...) \
    {                                                           \
        .kind = CLI_##kind_, .name = name_, .value = value_,    \
        .offset = offsetof(settings, member), __VA_ARGS__       \
    }

/* The table of a command, and how many entries it has. */
#define CLI_TABLE(table) .options = (table), .option_count = sizeof(table) / sizeof *(table)

/* What the ranks of mpirun share of a command: cells of a study and other pieces, or the
 * rows of one input, by the device that cli_parse opens. */
enum { CLI_SHARES_NOTHING = 0, CLI_SHARES_CELLS, CLI_SHARES_ROWS };

typedef struct cli_command {
    const char *name;
    const char *operands; /* as in the usage line, "" when it takes none         */
    size_t min_operands, max_operands;
    const char *summary; /* its line in `lipscope --help`                        */
    const char *about;   /* paragraphs under the usage line, wrapped by hand     */
    const char *example; /* lines, each with its newline                         */
    size_t option_count;
    const cli_option *options;
    int (*run)(const struct cli_command *self, int argc, char **argv);
    int shares; /* CLI_SHARES_: its work with other ranks, whose 0 speaks for all */
} cli_command;

/* What an option that may be repeated was given, in order. */
enum { CLI_MOST_TEXTS = 16 };
typedef struct {
    size_t count;
    const char *items[CLI_MOST_TEXTS];
} cli_texts;

/* Options that most commands share; put one `cli_common common` into the settings. */
typedef struct {
    int format;   /* lipsc_format                        */
    int progress; /* 0 auto, 1 always, 2 never           */
    int quiet;
    size_t threads;
    const char *device_name; /* NAME[:INDEX]; NULL: what LIPSCOPE_DEVICE says, or auto */
    lipsc_device *device;    /* cli_parse opens it, main closes it                     */
} cli_common;

/* Every option of GROUP "Output" that a command with results has.  settings is the type
 * that holds `common`. */
#define CLI_OUTPUT_OPTIONS(settings)                                                     \
    {.kind = CLI_GROUP, .name = "Output"},                                               \
        CLI_OPTION(settings, CHOICE, "format", "F", common.format,                       \
                   .wanted = "table|tsv|json",                                           \
                   .help = "table, tsv or json (default table)"),                        \
        CLI_OPTION(settings, CHOICE, "progress", "WHEN", common.progress,                \
                   .wanted = "auto|always|never",                                        \
                   .help =                                                               \
                       "show progress on standard error: auto (only on a terminal, the " \
                       "default), always or never"),                                     \
        CLI_OPTION(settings, FLAG, "quiet", NULL, common.quiet, .letter = 'q',           \
                   .help = "no progress and no remarks")

#define CLI_THREADS_OPTION(settings)                                                       \
    CLI_OPTION(settings, SIZE, "threads", "T", common.threads, .min = 0, .max = 4096,      \
               .help = "threads (default 0: as many as OpenMP gives)"),                    \
        CLI_OPTION(settings, TEXT, "device", "NAME", common.device_name,                   \
                   .help = "where to compute, as `lipscope devices` lists it, cuda:1 for " \
                           "instance (default auto: the cpu)")

/* Options of every command that prints a sigma, and the members that they fill. */
#define CLI_SOLVER_OPTION(settings, member)                                              \
    CLI_OPTION(settings, CHOICE, "solver", "S", member, .wanted = "lanczos|power|dense", \
               .help = "lanczos, power or dense (default lanczos)")

#define CLI_PRODUCTS_OPTION(settings, member, of)                                 \
    CLI_OPTION(settings, SIZE, "max-products", "N", member, .min = 1, .max = 1e9, \
               .help = "pairs of products at most" of " (default 1000)")

#define CLI_COUNT_OPTION(settings, member)                                    \
    CLI_OPTION(settings, SIZE, "count", "K", member, .min = 1, .max = 100000, \
               .help = "the K largest singular values, as `sigmas`")

#define CLI_PROBABILITY_OPTION(settings, member)                     \
    CLI_OPTION(settings, REAL, "probability", "P", member,           \
               .wanted = "a number between 0 and 1", .min = DBL_MIN, \
               .max = 1 - DBL_EPSILON, .help = "of `upper_prob` (default 0.999)")

#define CLI_RELEASED_OPTION(settings, member)               \
    CLI_OPTION(settings, FLAG, "as-released", NULL, member, \
               .help = "|J^T f(X)|^(1/2) as well, what the paper's scripts return")

#define CLI_MAX_SIGMA_OPTION(settings, of)                                          \
    CLI_OPTION(settings, REAL, "max-sigma", "S", max_sigma,                         \
               .wanted = "a number that is not negative", .min = 0, .max = DBL_MAX, \
               .help = "exit 4 when " of " is larger")

/* How a layer file is read; the settings have a cli_layer_file `file`. */
typedef struct {
    size_t num_heads, kv_heads, sliding;
    int causal;
    double scale; /* 0: the default */
} cli_layer_file;

#define CLI_LAYER_OPTIONS(settings)                                                        \
    CLI_OPTION(settings, SIZE, "num-heads", "H", file.num_heads, .min = 1, .max = 65536,   \
               .help = "query heads (default: as the file says, or 1)"),                   \
        CLI_OPTION(settings, SIZE, "kv-heads", "G", file.kv_heads, .min = 1, .max = 65536, \
                   .help =                                                                 \
                       "key/value heads (default: as the file says, or as query heads)"),  \
        CLI_OPTION(settings, FLAG, "causal", NULL, file.causal,                            \
                   .help = "token i sees j when j <= i"),                                  \
        CLI_OPTION(settings, SIZE, "sliding", "W", file.sliding, .min = 1, .max = 1e15,    \
                   .help = "token i sees j when 0 <= i - j < W"),                          \
        CLI_OPTION(settings, REAL, "scale", "S", file.scale,                               \
                   .wanted = "a number other than zero", .min = -DBL_MAX, .max = DBL_MAX,  \
                   .nonzero = 1,                                                           \
                   .help = "factor of the scores (default: as the file says, or "          \
                           "1/sqrt(k), or 1 with A)")

/* One layer of a model, for the commands that take just one; the settings have layer, head,
 * window, map (0 heads, 1 attention) and mask. */
#define CLI_ONE_LAYER_OPTIONS(settings)                                    \
    CLI_OPTION(settings, SIZE, "layers", "L", layer, .min = 0, .max = 1e8, \
               .help = "the layer, from 0 (default 0)"),                   \
        CLI_OPTION(settings, SIZE, "layer", NULL, layer, .min = 0, .max = 1e8)

#define CLI_ONE_HEAD_OPTION(settings) \
    CLI_OPTION(settings, TEXT, "heads", "H", head, .help = "all, or one head (default all)")

#define CLI_WINDOW_OPTION(settings)                                         \
    CLI_OPTION(settings, SIZE, "window", "W", window, .min = 0, .max = 1e8, \
               .help = "which window of that length, from 0 (default 0)")

#define CLI_MAP_OPTION(settings)                                               \
    CLI_OPTION(settings, CHOICE, "map", "M", map, .wanted = "heads|attention", \
               .help = "attention, or heads without the output projection "    \
                       "(default attention)")

#define CLI_MASK_OPTION(settings)                                                  \
    CLI_OPTION(settings, CHOICE, "mask", "M", mask, .wanted = "model|none|causal", \
               .help = "model, none or causal (default model)")

/* The settings have an int part, a lipsc_part. */
#define CLI_PART_OPTION(settings)                                           \
    CLI_OPTION(                                                             \
        settings, CHOICE, "part", "P", part, .wanted = "whole|text|vision", \
        .help =                                                             \
            "of a model that has both (clip, siglip, gemma3): its text or vision part")

enum { CLI_RUN = -1 }; /* cli_parse: nothing stands in the way */

/* Fills settings.  Operands are moved to the front of argv, in their order, and counted
 * in *operands.  Returns CLI_RUN, or the exit code when the program has to end: help was
 * asked for, or the use was wrong (said on standard error). */
int cli_parse(const cli_command *self, int argc, char **argv, void *settings,
              int *operands);
/* From now on notes and words about wrong use are another rank's; what fails is said with
 * the number of this one.  0: as always. */
void cli_speak_as(size_t rank);

/* Closes the device that cli_parse opened; NULL is fine. */
void cli_close_device(void);

/* "lipscope NAME: sentence" on standard error, safe for a terminal whatever the words hold;
 * cli_wrong_use adds where to find help.  These return CLI_FAILED and CLI_USAGE.  self
 * NULL: the program itself. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_note(const cli_command *self, const char *format, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int cli_failure(const cli_command *self, const char *format, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int cli_wrong_use(const cli_command *self, const char *format, ...);

/* The words as typed, for a run file: quoted where the shell would need it.  Before
 * cli_parse, which moves the words.  free it; NULL when memory is short. */
char *cli_command_line(const cli_command *self, int argc, char **argv);

/* The candidate nearest to word, NULL when none is near. */
const char *cli_nearest(const char *word, size_t count, const char *const *candidates);

/* help.c */
void cli_help(FILE *to, const cli_command *self);
void cli_help_program(FILE *to, size_t count, const cli_command *const *commands);

/* The exit codes in words, two lines. */
extern const char cli_exit_codes[];

/* completion.c: lipscope.bash, _lipscope (zsh) and lipscope.fish in a folder that exists;
 * the exit code. */
int cli_completions(const char *folder, size_t count, const cli_command *const *commands);

/* man.c: lipscope.1 and lipscope-COMMAND.1 in a folder that exists; the exit code. */
int cli_man_pages(const char *folder, size_t count, const cli_command *const *commands);

#endif
