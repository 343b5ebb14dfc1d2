/* gauss_file.c - Gaussians and mixtures of them from a safetensors file:
 *     mean (d) or (parts, d), cov (d, d) or (parts, d, d), optional mix (parts). */
#include "io/gauss_file.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <string.h>

typedef struct {
    const lipsc_st *st;
    const lipsc_st_tensor *mean, *cov, *mix;
} tensors;

static lipsc_status refuse_shape(const tensors *t, const lipsc_st_tensor *which,
                                 const char *wanted, lipsc_error *err) {
    char shape[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(which->ndim, which->shape, shape);
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' has shape %s, not %s",
                      lipsc_st_path(t->st), which->name, shape, wanted);
}

static lipsc_status take_shapes(const tensors *t, lipsc_gauss *g, lipsc_error *err) {
    const lipsc_st_tensor *mean = t->mean, *cov = t->cov, *mix = t->mix;
    const int several = mean->ndim == 2;
    if ((mean->ndim != 1 && !several) || mean->count == 0)
        return refuse_shape(t, mean, "(d) or (parts, d)", err);
    g->parts = several ? mean->shape[0] : 1;
    g->d = mean->shape[mean->ndim - 1];
    const size_t *square = cov->shape + (cov->ndim == 3);
    const size_t parts = cov->ndim == 3 ? cov->shape[0] : 1;
    if ((cov->ndim != 2 && cov->ndim != 3) || parts != g->parts || square[0] != g->d ||
        square[1] != g->d)
        return refuse_shape(t, cov, "(d, d) or (parts, d, d) as that of mean asks for",
                            err);
    if (mix && (mix->ndim != 1 || mix->count != g->parts))
        return refuse_shape(t, mix, "(parts)", err);
    return LIPSC_OK;
}

static lipsc_status read_all(const tensors *t, lipsc_gauss *g, double **storage,
                             lipsc_error *err) {
    const size_t means = t->mean->count, covs = t->cov->count;
    double *all = lipsc_alloc(means + covs + g->parts, sizeof *all);
    if (!all)
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: no memory for its tensors",
                          lipsc_st_path(t->st));
    lipsc_status status = lipsc_st_read_f64(t->st, t->mean, 0, means, all, err);
    if (!status) status = lipsc_st_read_f64(t->st, t->cov, 0, covs, all + means, err);
    if (!status && t->mix)
        status = lipsc_st_read_f64(t->st, t->mix, 0, g->parts, all + means + covs, err);
    g->mean = all;
    g->cov = all + means;
    g->mass = t->mix ? all + means + covs : NULL;
    if (status)
        lipsc_release(all);
    else
        *storage = all;
    return status;
}

lipsc_status lipsc_gauss_from_st(const lipsc_st *st, lipsc_gauss_file *out,
                                 lipsc_error *err) {
    const tensors t = {st, lipsc_st_find(st, "mean"), lipsc_st_find(st, "cov"),
                       lipsc_st_find(st, "mix")};
    lipsc_gauss gauss = {0};
    double *storage = NULL;
    if (!t.mean || !t.cov)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' is missing",
                          lipsc_st_path(st), t.mean ? "cov" : "mean");
    lipsc_status status = take_shapes(&t, &gauss, err);
    if (!status) status = read_all(&t, &gauss, &storage, err);
    if (!status) *out = (lipsc_gauss_file){gauss, storage};
    return status;
}

lipsc_status lipsc_gauss_file_read(const char *path, lipsc_gauss_file *out,
                                   lipsc_error *err) {
    lipsc_st *st;
    lipsc_status status = lipsc_st_open(path, &st, err);
    if (status) return status;
    status = lipsc_gauss_from_st(st, out, err);
    lipsc_st_free(st);
    return status;
}

void lipsc_gauss_file_free(lipsc_gauss_file *file) {
    if (!file) return;
    lipsc_release(file->storage);
    *file = (lipsc_gauss_file){0};
}

int lipsc_gauss_file_recognised(const char *path) {
    lipsc_st *st;
    if (lipsc_st_open(path, &st, NULL)) return 0;
    const int yes = lipsc_st_find(st, "mean") != NULL && !lipsc_st_find(st, "points");
    lipsc_st_free(st);
    return yes;
}
