/* gauss.c - Gaussians in the commands about measures. */
#include "gauss.h"

#include <math.h>

#include "distance_table.h"
#include "rows.h"

/* The file and its values checked; what is wrong is said on standard error. */
static int gauss_open(const cli_command *self, const char *path, lipsc_gauss_file *out) {
    lipsc_error err;
    if (lipsc_gauss_file_read(path, out, &err)) return cli_failure(self, "%s", err.text);
    if (lipsc_gauss_check(&out->gauss, &err)) {
        lipsc_gauss_file_free(out);
        return cli_failure(self, "%s: %s", path, err.text);
    }
    return CLI_RUN;
}

static int rate(const cli_command *self, const lipsc_layer *layer, const lipsc_gauss *gauss,
                uint64_t seed, gauss_rate *out) {
    enum { REPEATS = 4 };
    static const size_t lengths[GAUSS_LENGTHS] = {100, 400, 1600, 6400};
    lipsc_error err;
    for (size_t k = 0; k < GAUSS_LENGTHS; k++) out->lengths[k] = (double)lengths[k];
    return lipsc_gauss_rate(layer, gauss, GAUSS_LENGTHS, lengths, REPEATS, seed,
                            out->errors, &out->exponent, &err)
               ? cli_failure(self, "%s", err.text)
               : CLI_RUN;
}

int gauss_rate_of(const cli_command *self, const layer_source *layer, const char *path,
                  uint64_t seed, gauss_rate *out) {
    lipsc_gauss_file file;
    int code = gauss_open(self, path, &file);
    if (code != CLI_RUN) return code;
    code = rate(self, &layer->layer, &file.gauss, seed, out);
    lipsc_gauss_file_free(&file);
    return code;
}

/* ---- One Gaussian through a layer ---------------------------------------------------- */

/* One row for split and push: |V S A|, and how samples approach the limit. */
#define GAUSS_LIST(X)                                                   \
    X(move, REAL, 0, 1, "", "null: moving may be unbounded")            \
    X(split, REAL, 0, 1, "", "|V S A|, the constant of splitting")      \
    X(teleport, REAL, 0, 1, "", "the same, that of teleporting")        \
    X(parts, COUNT, 0, 1, "", "of a mixture")                           \
    X(d, COUNT, 0, 1, "", "width of the tokens")                        \
    X(width, COUNT, 0, 1, "", "of the image")                           \
    X(map, TEXT, 0, 1, "", "attention or heads")                        \
    X(method, TEXT, 0, 1, "", "gaussian: in closed form")               \
    X(lengths, REALS, 0, 1, "tokens", "of samples")                     \
    X(errors, REALS, 0, 1, "", "how far their maps are from the limit") \
    X(exponent, REAL, 0, 1, "", "slope of ln error on ln n")            \
    X(image, TEXT, 0, 1, "", "the file that holds the image")

typedef struct {
    GAUSS_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {GAUSS_LIST(LIPSC_FIELD_ENTRY)};

static int act(const cli_command *self, const layer_settings *s, const char *path,
               const layer_source *layer, const lipsc_gauss *gauss, const char *out) {
    lipsc_gauss_file to;
    gauss_rate seen;
    double slope;
    lipsc_error err;
    if (lipsc_gauss_image(&layer->layer, gauss, &to, &slope, &err))
        return cli_failure(self, "%s: %s%s", path, err.text,
                           gauss->parts > 1 ? " with --samples N" : "");
    const int unwritten = out && lipsc_gauss_file_write(out, &to.gauss, &err);
    const size_t width = to.gauss.d;
    lipsc_gauss_file_free(&to);
    if (unwritten) return cli_failure(self, "%s", err.text);
    const int code = rate(self, &layer->layer, gauss, s->seed, &seen);
    if (code != CLI_RUN) return code;
    const record row = {.move = NAN,
                        .split = slope,
                        .teleport = slope,
                        .parts = gauss->parts,
                        .d = gauss->d,
                        .width = width,
                        .map = layer_source_map(layer),
                        .method = "gaussian",
                        .lengths = {GAUSS_LENGTHS, seen.lengths},
                        .errors = {GAUSS_LENGTHS, seen.errors},
                        .exponent = seen.exponent,
                        .image = out};
    cli_rows rows;
    cli_rows_begin(&rows, self, &s->common, LIPSC_LAYOUT_UPRIGHT, CLI_FIELDS(fields), 0);
    cli_rows_add(&rows, &row);
    return cli_rows_end(&rows);
}

int gauss_act(const cli_command *self, const layer_settings *s, const char *path,
              const char *out) {
    lipsc_gauss_file file;
    layer_source layer;
    int code = gauss_open(self, path, &file);
    if (code != CLI_RUN) return code;
    code = layer_source_open(self, s, 0, &layer);
    if (code == CLI_RUN) code = act(self, s, path, &layer, &file.gauss, out);
    layer_source_close(&layer);
    lipsc_gauss_file_free(&file);
    return code;
}

/* ---- Two Gaussians ------------------------------------------------------------------- */

static int apart(const cli_command *self, const layer_settings *s, const char *second,
                 const lipsc_gauss *a, const lipsc_gauss *b) {
    distance_row row = {.p = 2.0, .gap = NAN, .method = "gaussian", .d = a->d};
    layer_source layer;
    lipsc_ratio ratio;
    lipsc_error err;
    row.image_distance = row.ratio = NAN;
    if (lipsc_gauss_distance(a, b, &row.distance, &err))
        return cli_failure(self, "%s", err.text);
    row.cost = row.distance * row.distance;
    if (!s->path && !s->model) return distance_print_gaussian(self, &s->common, &row);
    int code = layer_source_open(self, s, 0, &layer);
    if (code == CLI_RUN && lipsc_gauss_ratio(&layer.layer, a, b, &ratio, &err))
        code = cli_failure(self, "%s: %s%s", second, err.text,
                           a->parts > 1 || b->parts > 1 ? " with --samples N" : "");
    layer_source_close(&layer);
    if (code != CLI_RUN) return code;
    row.image_distance = ratio.after;
    row.ratio = ratio.ratio;
    return distance_print_gaussian(self, &s->common, &row);
}

int gauss_distance(const cli_command *self, const layer_settings *s, const char *first,
                   const char *second) {
    lipsc_gauss_file file[2] = {{.storage = NULL}, {.storage = NULL}};
    int code = gauss_open(self, first, &file[0]);
    if (code == CLI_RUN) code = gauss_open(self, second, &file[1]);
    if (code == CLI_RUN) code = apart(self, s, second, &file[0].gauss, &file[1].gauss);
    lipsc_gauss_file_free(&file[0]);
    lipsc_gauss_file_free(&file[1]);
    return code;
}
