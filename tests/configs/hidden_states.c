/* hidden_states.c - runs folders through the product for tools/mutate_configs.py: a line
 * "DIR N ID..." or "DIR pixels CHANNELS HEIGHT WIDTH FILE" on stdin writes the last hidden
 * state to DIR/hidden.f64 and answers "OK ROWS COLUMNS", or "ERR" with the sentence. Behind
 * DIR, "@text" or "@vision" may choose a part. */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lipsc_status run_pixels(lipsc_model *m, lipsc_acts **acts, lipsc_error *err) {
    size_t shape[3];
    char file[1024];
    if (scanf("%zu %zu %zu %1023s", &shape[0], &shape[1], &shape[2], file) != 4) exit(1);
    const size_t count = shape[0] * shape[1] * shape[2];
    double *pixels = malloc(count * sizeof *pixels);
    FILE *in = fopen(file, "rb");
    if (!pixels || !in || fread(pixels, sizeof *pixels, count, in) != count) exit(1);
    fclose(in);
    const lipsc_status status =
        m ? lipsc_acts_new_pixels(m, LIPSC_F64, NULL, shape, pixels, 0, acts, err)
          : LIPSC_E_ARG;
    free(pixels);
    return status;
}

static lipsc_status run_ids(lipsc_model *m, size_t n, lipsc_acts **acts, lipsc_error *err) {
    uint32_t *ids = malloc((n + 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        if (!ids || scanf("%u", &ids[i]) != 1) exit(1);
    const lipsc_status status =
        m ? lipsc_acts_new(m, LIPSC_F64, NULL, n, ids, 0, acts, err) : LIPSC_E_ARG;
    free(ids);
    return status;
}

static void write_output(const lipsc_model *m, const lipsc_acts *acts, const char *dir) {
    const size_t n = lipsc_acts_length(acts), d = lipsc_model_describe(m)->d;
    char path[1100];
    snprintf(path, sizeof path, "%s/hidden.f64", dir);
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(lipsc_acts_output(acts), sizeof(double), n * d, out) != n * d)
        exit(1);
    fclose(out);
    printf("OK %zu %zu\n", n, d);
}

/* Cuts the part off the name. */
static lipsc_part part_of(char *dir) {
    char *at = strrchr(dir, '@');
    if (!at) return LIPSC_PART_WHOLE;
    *at = 0;
    return strcmp(at + 1, "text") ? LIPSC_PART_VISION : LIPSC_PART_TEXT;
}

int main(void) {
    char dir[1024], what[32];
    while (scanf("%1023s %31s", dir, what) == 2) {
        lipsc_error err = {0}, ignored = {0};
        lipsc_model *m = NULL;
        lipsc_acts *acts = NULL;
        const lipsc_part part = part_of(dir);
        const lipsc_status opened = lipsc_model_open_part(dir, part, 1, &m, &err);
        lipsc_error *why = opened ? &ignored : &err;
        const lipsc_status status =
            !strcmp(what, "pixels")
                ? run_pixels(m, &acts, why)
                : run_ids(m, (size_t)strtoul(what, NULL, 10), &acts, why);
        if (status)
            printf("ERR %s\n", err.text);
        else
            write_output(m, acts, dir);
        fflush(stdout);
        lipsc_acts_free(acts);
        if (m) lipsc_model_free(m);
    }
    return 0;
}
