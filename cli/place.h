/* place.h - the options that say which layer, and at which input: of a layer file, or of a
 * model.  `bounds`, `attack` and `export` share them. */
#ifndef LIPSC_CLI_PLACE_H
#define LIPSC_CLI_PLACE_H

#include "args.h"
#include "source.h"

/* The first member of the settings of a command, so that offsets in it are offsets there.
 */
typedef struct {
    cli_common common;
    cli_layer_file file;
    /* a model */
    lipsc_source_options source;
    size_t layer, length, window;
    const char *head; /* NULL or "all": all heads      */
    int map;          /* 0 heads, 1 attention          */
    int mask;         /* 0 the model's, 1 none, 2 causal */
    int part;
    uint64_t seed;
    /* the domain */
    const char *radius; /* NULL, a number, or "layernorm" */
} cli_place;

#define CLI_PLACE_DEFAULT \
    { .map = 1, .seed = 1 }

/* The settings hold what is asked of the library, `set`. */
#define CLI_RELATIVE_OPTION(settings, of)                      \
    CLI_OPTION(settings, FLAG, "relative", NULL, set.relative, \
               .help = "R of " of " counts in lengths of the mean token")

/* need_input: the file must have X. */
lipsc_layer_options cli_layer_file_how(const cli_layer_file *file, int need_input);

/* The radius as a number (NaN: none is given), or that of the norm, which a layer file has
 * not.  CLI_RUN, or the exit code after a sentence. */
int cli_radius_read(const cli_command *self, const cli_place *s, const char *from,
                    double *radius, int *of_norm);

/* Opens it and says what is worth knowing.  need_input: a layer file must have X.  CLI_RUN,
 * or the exit code after a sentence; close it either way. */
int cli_place_open(const cli_command *self, const cli_place *s, const char *from,
                   int need_input, lipsc_place **out);

/* The layer in words: "gpt2/ on alice.txt, layer 3, head 2". */
enum { CLI_PLACE_WORDS = 600 };
const char *cli_place_words(const cli_place *s, const char *from, const lipsc_place *place,
                            char words[CLI_PLACE_WORDS]);

/* The sentence, as wrong use where the options are at fault. */
int cli_place_failure(const cli_command *self, lipsc_status status, const lipsc_error *err);

#endif
