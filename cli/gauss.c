/* gauss.c - Gaussians in the commands about measures. */
#include "gauss.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>

#include "names.h"

int gauss_open(const cli_command *self, const char *path, lipsc_gauss_file *out) {
    lipsc_error err;
    if (lipsc_gauss_file_read(path, out, &err)) return cli_failure(self, "%s", err.text);
    if (lipsc_gauss_check(&out->gauss, &err)) {
        lipsc_gauss_file_free(out);
        return cli_failure(self, "%s: %s", path, err.text);
    }
    return CLI_RUN;
}

static int sample(const cli_command *self, const char *path, size_t n, uint64_t seed,
                  lipsc_measure_file *out) {
    lipsc_gauss_file file;
    lipsc_error err = {.text = ""};
    const int code = gauss_open(self, path, &file);
    if (code != CLI_RUN) return code;
    const size_t d = file.gauss.d;
    double *points = calloc(n, d * sizeof *points);
    const lipsc_status status =
        points ? lipsc_gauss_sample(&file.gauss, n, seed, points, &err) : LIPSC_E_NOMEM;
    lipsc_gauss_file_free(&file);
    if (status) {
        free(points);
        return cli_failure(self, "%s: %s", path,
                           *err.text ? err.text : lipsc_strerror(status));
    }
    out->measure = (lipsc_measure){.n = n, .d = d, .points = points};
    out->storage = points;
    return CLI_RUN;
}

int measure_open(const cli_command *self, const char *path, int normalise, size_t samples,
                 uint64_t seed, lipsc_measure_file *out) {
    lipsc_error err;
    if (samples) return sample(self, path, samples, seed, out);
    return lipsc_measure_file_read(path, normalise, out, &err)
               ? cli_failure(self, "%s", err.text)
               : CLI_RUN;
}

/* ---- One Gaussian through a layer
 * ---------------------------------------------------------- */

typedef struct {
    lipsc_gauss gauss; /* the image */
    double slope;
    double *storage;
} image;

static int push(const cli_command *self, const char *path, const lipsc_layer *layer,
                const lipsc_gauss *gauss, image *out) {
    const size_t width = lipsc_layer_width(layer);
    lipsc_error err = {.text = ""};
    out->storage = calloc(width, (width + 1) * sizeof *out->storage);
    const lipsc_status status =
        out->storage ? lipsc_gauss_push(layer, gauss, out->storage, out->storage + width,
                                        &out->slope, &err)
                     : LIPSC_E_NOMEM;
    if (status) {
        free(out->storage);
        out->storage = NULL;
        return cli_failure(self, "%s: %s%s", path,
                           *err.text ? err.text : lipsc_strerror(status),
                           gauss->parts > 1 ? " with --samples N" : "");
    }
    out->gauss = (lipsc_gauss){
        .parts = 1, .d = width, .mean = out->storage, .cov = out->storage + width};
    return CLI_RUN;
}

enum { LENGTHS = 4, REPEATS = 4 };
static const size_t lengths[LENGTHS] = {100, 400, 1600, 6400};

int gauss_fill_rate(const cli_command *self, const lipsc_layer *layer,
                    const lipsc_gauss *gauss, uint64_t seed, lipsc_table *t) {
    double errors[LENGTHS], exponent, numbers[LENGTHS];
    lipsc_error err;
    if (lipsc_gauss_rate(layer, gauss, LENGTHS, lengths, REPEATS, seed, errors, &exponent,
                         &err))
        return cli_failure(self, "%s", err.text);
    for (size_t k = 0; k < LENGTHS; k++) numbers[k] = (double)lengths[k];
    lipsc_table_reals(t, "lengths", LENGTHS, numbers);
    lipsc_table_reals(t, "errors", LENGTHS, errors);
    lipsc_table_real(t, "exponent", exponent);
    return CLI_RUN;
}

static const lipsc_column columns[] = {
    {"move", LIPSC_COLUMN_REAL},     {"split", LIPSC_COLUMN_REAL},
    {"teleport", LIPSC_COLUMN_REAL}, {"parts", LIPSC_COLUMN_INTEGER},
    {"d", LIPSC_COLUMN_INTEGER},     {"width", LIPSC_COLUMN_INTEGER},
    {"map", LIPSC_COLUMN_STRING},    {"method", LIPSC_COLUMN_STRING},
    {"lengths", LIPSC_COLUMN_REALS}, {"errors", LIPSC_COLUMN_REALS},
    {"exponent", LIPSC_COLUMN_REAL}, {"image", LIPSC_COLUMN_STRING}};

/* One row for split and push: |V S A|, and how samples approach the limit. */
static int print(const cli_command *self, const layer_settings *s,
                 const layer_source *layer, const lipsc_gauss *gauss, const image *to,
                 const char *file) {
    lipsc_error err;
    lipsc_table *t =
        lipsc_table_new(self->name, (lipsc_format)s->common.format, LIPSC_LAYOUT_UPRIGHT,
                        stdout, sizeof columns / sizeof *columns, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_row(t);
    lipsc_table_real(t, "split", to->slope);
    lipsc_table_real(t, "teleport", to->slope);
    lipsc_table_integer(t, "parts", (long long)gauss->parts);
    lipsc_table_integer(t, "d", (long long)gauss->d);
    lipsc_table_integer(t, "width", (long long)to->gauss.d);
    lipsc_table_string(t, "map", cli_map_name(&layer->layer));
    lipsc_table_string(t, "method", "gaussian");
    if (file) lipsc_table_string(t, "image", file);
    int code = gauss_fill_rate(self, &layer->layer, gauss, s->seed, t);
    if (code == CLI_RUN)
        code = lipsc_table_end(t, &err) ? cli_failure(self, "%s", err.text) : CLI_DONE;
    lipsc_table_free(t);
    return code;
}

int gauss_act(const cli_command *self, const layer_settings *s, const char *path,
              const char *out) {
    lipsc_gauss_file file;
    layer_source layer;
    image to;
    lipsc_error err;
    int code = gauss_open(self, path, &file);
    if (code != CLI_RUN) return code;
    code = layer_source_open(self, s, 0, &layer);
    if (code == CLI_RUN) code = push(self, path, &layer.layer, &file.gauss, &to);
    if (code == CLI_RUN) {
        const size_t shape[2] = {to.gauss.d, to.gauss.d};
        const lipsc_st_item items[] = {{"mean", LIPSC_F64, 1, shape, to.gauss.mean},
                                       {"cov", LIPSC_F64, 2, shape, to.gauss.cov}};
        code = out && lipsc_st_write(out, items, 2, NULL, 0, &err)
                   ? cli_failure(self, "%s", err.text)
                   : print(self, s, &layer, &file.gauss, &to, out);
        free(to.storage);
    }
    layer_source_close(&layer);
    lipsc_gauss_file_free(&file);
    return code;
}

/* ---- Two Gaussians -------------------------------------------------------------- */

static int print_distance(const cli_command *self, const layer_settings *s, size_t d,
                          double before, double after) {
    static const lipsc_column both[] = {{"p", LIPSC_COLUMN_REAL},
                                        {"distance", LIPSC_COLUMN_REAL},
                                        {"cost", LIPSC_COLUMN_REAL},
                                        {"gap", LIPSC_COLUMN_REAL},
                                        {"conditional", LIPSC_COLUMN_BOOL},
                                        {"method", LIPSC_COLUMN_STRING},
                                        {"image_distance", LIPSC_COLUMN_REAL},
                                        {"ratio", LIPSC_COLUMN_REAL},
                                        {"d", LIPSC_COLUMN_INTEGER}};
    lipsc_error err;
    lipsc_table *t =
        lipsc_table_new(self->name, (lipsc_format)s->common.format, LIPSC_LAYOUT_UPRIGHT,
                        stdout, sizeof both / sizeof *both, both);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_row(t);
    lipsc_table_real(t, "p", 2.0);
    lipsc_table_real(t, "distance", before);
    lipsc_table_real(t, "cost", before * before);
    lipsc_table_bool(t, "conditional", 0);
    lipsc_table_string(t, "method", "gaussian");
    lipsc_table_real(t, "image_distance", after);
    lipsc_table_real(t, "ratio", before > 0.0 ? after / before : NAN);
    lipsc_table_integer(t, "d", (long long)d);
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

static int images_apart(const cli_command *self, const layer_settings *s,
                        const char *const path[2], const lipsc_gauss_file file[2],
                        double *after) {
    layer_source layer;
    image to[2] = {{.storage = NULL}, {.storage = NULL}};
    lipsc_error err;
    int code = layer_source_open(self, s, 0, &layer);
    for (int k = 0; k < 2 && code == CLI_RUN; k++)
        code = push(self, path[k], &layer.layer, &file[k].gauss, &to[k]);
    if (code == CLI_RUN && lipsc_gauss_distance(&to[0].gauss, &to[1].gauss, after, &err))
        code = cli_failure(self, "%s", err.text);
    free(to[0].storage);
    free(to[1].storage);
    layer_source_close(&layer);
    return code;
}

int gauss_distance(const cli_command *self, const layer_settings *s, int layer,
                   const char *first, const char *second) {
    const char *const path[2] = {first, second};
    lipsc_gauss_file file[2] = {{.storage = NULL}, {.storage = NULL}};
    lipsc_error err;
    double before, after = NAN;
    int code = gauss_open(self, first, &file[0]);
    if (code == CLI_RUN) code = gauss_open(self, second, &file[1]);
    if (code == CLI_RUN &&
        lipsc_gauss_distance(&file[0].gauss, &file[1].gauss, &before, &err))
        code = cli_failure(self, "%s", err.text);
    if (code == CLI_RUN && layer) code = images_apart(self, s, path, file, &after);
    if (code == CLI_RUN) code = print_distance(self, s, file[0].gauss.d, before, after);
    lipsc_gauss_file_free(&file[0]);
    lipsc_gauss_file_free(&file[1]);
    return code;
}
