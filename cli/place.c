/* place.c - which layer, and at which input: of a layer file, or of a model. */
#include "place.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ranks.h"

lipsc_layer_options cli_layer_file_how(const cli_layer_file *file, int need_input) {
    return (lipsc_layer_options){.heads = file->num_heads,
                                 .kv_heads = file->kv_heads,
                                 .scale = file->scale,
                                 .mask = file->sliding  ? LIPSC_MASK_SLIDING
                                         : file->causal ? LIPSC_MASK_CAUSAL
                                                        : LIPSC_MASK_NONE,
                                 .window = file->sliding,
                                 .need_input = need_input};
}

int cli_radius_read(const cli_command *self, const cli_place *s, const char *from,
                    double *radius, int *of_norm) {
    *radius = NAN;
    *of_norm = s->radius && !strcmp(s->radius, "layernorm");
    if (s->radius && !*of_norm && cli_number_real(s->radius, 0.0, DBL_MAX, radius))
        return cli_wrong_use(self,
                             "invalid value '%s' for '--radius': expected layernorm or "
                             "a number that is not negative",
                             s->radius);
    if (*of_norm && !lipsc_place_is_model(from))
        return cli_wrong_use(self,
                             "--radius layernorm needs a model: a layer file has no norm");
    return CLI_RUN;
}

static int check(const cli_command *self, const cli_place *s) {
    if (!!s->source.text + !!s->source.ids + !!s->source.pixels > 1)
        return cli_wrong_use(self, "give one of --text, --ids and --pixels");
    return cli_source_check(self, &s->source);
}

static int read_head(const cli_command *self, const char *word, long *head) {
    size_t place;
    *head = -1;
    if (!word || !strcmp(word, "all")) return CLI_RUN;
    if (cli_number_size(word, 0, LONG_MAX, &place))
        return cli_wrong_use(self, "--heads %s: expected all, or one head", word);
    *head = (long)place;
    return CLI_RUN;
}

static void fill(const cli_place *s, const char *from, int need_input,
                 lipsc_place_options *of) {
    static const lipsc_mask masks[] = {LIPSC_MASK_NONE, LIPSC_MASK_NONE, LIPSC_MASK_CAUSAL};
    of->from = from;
    of->file = cli_layer_file_how(&s->file, need_input);
    of->part = (lipsc_part)s->part;
    of->seed = s->seed;
    of->layer = s->layer;
    of->map = s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS;
    of->mask_override = s->mask ? &masks[s->mask] : NULL;
    of->source = s->source;
    of->length = s->length;
    of->window = s->window;
}

int cli_place_open(const cli_command *self, const cli_place *s, const char *from,
                   int need_input, lipsc_place **out) {
    lipsc_place_options of;
    lipsc_error err = {.text = ""};
    *out = NULL;
    lipsc_place_defaults(&of);
    fill(s, from, need_input, &of);
    int code = check(self, s);
    if (code == CLI_RUN) code = read_head(self, s->head, &of.head);
    if (code != CLI_RUN) return code;
    of.device = s->common.device;
    if (self->shares) of.ranks = cli_ranks();
    const lipsc_status status = lipsc_place_open(&of, out, &err);
    if (status && !cli_ranks_leads()) return CLI_DONE; /* rank 0 says why */
    if (status) return cli_place_failure(self, status, &err);
    if (!s->common.quiet) cli_source_say(self, lipsc_place_source(*out));
    return CLI_RUN;
}

const char *cli_place_words(const cli_place *s, const char *from, const lipsc_place *place,
                            char words[CLI_PLACE_WORDS]) {
    const lipsc_source *source = lipsc_place_source(place);
    char text[300] = "", layer[64] = "", head[40] = "";
    if (source) snprintf(text, sizeof text, " on %.280s", source->path);
    if (lipsc_place_model(place)) snprintf(layer, sizeof layer, ", layer %zu", s->layer);
    if (s->head && strcmp(s->head, "all"))
        snprintf(head, sizeof head, ", head %.20s", s->head);
    snprintf(words, CLI_PLACE_WORDS, "%.150s%s%s%s", from, text, layer, head);
    return words;
}

int cli_place_failure(const cli_command *self, lipsc_status status,
                      const lipsc_error *err) {
    if (status == LIPSC_E_STOPPED) return cli_failure(self, "interrupted");
    return (status == LIPSC_E_ARG ? cli_wrong_use : cli_failure)(self, "%s", err->text);
}
