/* files.c - measures, plans and directions written as safetensors, in the form in which
 * they are read back. */
#include <stdio.h>

#include "core/error.h"
#include "core/mem.h"
#include "lipscope/file.h"
#include "lipscope/meanfield.h"

enum { OWN = 3, MORE = 3 };

/* Further tensors and notes are ignored by readers of measures. */
static lipsc_status write_measure(const char *path, const lipsc_measure *mu,
                                  size_t more_count, const lipsc_st_item *more,
                                  size_t note_count, const lipsc_st_note *notes,
                                  lipsc_error *err) {
    const size_t shape[2] = {mu->n, mu->d};
    lipsc_st_item items[OWN + MORE];
    size_t count = 0;
    items[count++] = (lipsc_st_item){"points", LIPSC_F64, 2, shape, mu->points};
    if (mu->weights)
        items[count++] = (lipsc_st_item){"weights", LIPSC_F64, 1, shape, mu->weights};
    if (mu->times)
        items[count++] = (lipsc_st_item){"times", LIPSC_F64, 1, shape, mu->times};
    for (size_t k = 0; k < more_count; k++) items[count++] = more[k];
    return lipsc_st_write(path, items, count, notes, note_count, err);
}

lipsc_status lipsc_measure_file_write(const char *path, const lipsc_measure *mu,
                                      lipsc_error *err) {
    return write_measure(path, mu, 0, NULL, 0, NULL, err);
}

lipsc_status lipsc_slopes_write(const char *path, const lipsc_slopes *slopes,
                                const lipsc_measure *mu, double step, lipsc_error *err) {
    const size_t all[2] = {slopes->n, slopes->d}, *row = all + 1;
    const lipsc_st_item more[MORE] = {{"move", LIPSC_F64, 2, all, slopes->direction},
                                      {"half", LIPSC_F64, 1, row, slopes->half},
                                      {"target", LIPSC_F64, 1, row, slopes->target}};
    char taken[32], atom[32];
    snprintf(taken, sizeof taken, "%.17g", step);
    snprintf(atom, sizeof atom, "%zu", slopes->split_atom);
    const lipsc_st_note notes[] = {{"step", taken}, {"split_atom", atom}};
    lipsc_cloud parted;
    lipsc_status status =
        lipsc_slopes_perturb(slopes, mu, LIPSC_PERTURB_SPLIT, step, &parted, err);
    if (status) return status;
    status = write_measure(path, &parted.measure, MORE, more, 2, notes, err);
    lipsc_cloud_free(&parted);
    return status;
}

lipsc_status lipsc_distance_write(const char *path, const lipsc_distance *distance,
                                  size_t n, size_t m, lipsc_error *err) {
    const size_t count = distance->moves;
    double *columns = lipsc_alloc(count ? count : 1, 3 * sizeof *columns);
    if (!columns) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a plan");
    for (size_t k = 0; k < count; k++) {
        columns[k] = (double)distance->plan[k].from;
        columns[count + k] = (double)distance->plan[k].to;
        columns[2 * count + k] = distance->plan[k].mass;
    }
    const lipsc_st_item items[] = {{"from", LIPSC_F64, 1, &count, columns},
                                   {"to", LIPSC_F64, 1, &count, columns + count},
                                   {"mass", LIPSC_F64, 1, &count, columns + 2 * count},
                                   {"f", LIPSC_F64, 1, &n, distance->f},
                                   {"g", LIPSC_F64, 1, &m, distance->g}};
    char p[32];
    snprintf(p, sizeof p, "%.17g", distance->p);
    const lipsc_st_note notes[] = {{"p", p}, {"method", distance->method}};
    const lipsc_status status = lipsc_st_write(path, items, sizeof items / sizeof *items,
                                               notes, sizeof notes / sizeof *notes, err);
    lipsc_release(columns);
    return status;
}

lipsc_status lipsc_gauss_file_write(const char *path, const lipsc_gauss *gauss,
                                    lipsc_error *err) {
    const size_t shape[2] = {gauss->d, gauss->d};
    const lipsc_st_item items[] = {{"mean", LIPSC_F64, 1, shape, gauss->mean},
                                   {"cov", LIPSC_F64, 2, shape, gauss->cov}};
    if (gauss->parts != 1)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: only one Gaussian is written", path);
    return lipsc_st_write(path, items, sizeof items / sizeof *items, NULL, 0, err);
}

lipsc_status lipsc_gauss_file_sample(const char *path, size_t n, uint64_t seed,
                                     lipsc_measure_file *out, lipsc_error *err) {
    lipsc_gauss_file file;
    lipsc_error why = {.text = "out of memory"};
    lipsc_status status = lipsc_gauss_file_read(path, &file, err);
    if (status) return status;
    const size_t d = file.gauss.d;
    double *points = lipsc_alloc(n, d * sizeof *points);
    status = lipsc_gauss_check(&file.gauss, &why);
    if (!status)
        status =
            points ? lipsc_gauss_sample(&file.gauss, n, seed, points, &why) : LIPSC_E_NOMEM;
    lipsc_gauss_file_free(&file);
    if (status) {
        lipsc_release(points);
        return lipsc_fail(err, status, "%s: %s", path, why.text);
    }
    *out = (lipsc_measure_file){{.n = n, .d = d, .points = points}, points};
    return LIPSC_OK;
}
