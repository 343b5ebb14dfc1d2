/* numbers.c - the numbers of a model's tensors: from its files, or made at random.
 *
 * The i-th random number of a tensor depends on the seed, the name and i alone, and is
 * rounded to float, as a saved checkpoint would hold it. */
#include "model/tensors.h"

#include "core/error.h"
#include "core/rng.h"
#include "io/mxfp4.h"
#include "io/show.h"
#include "linalg/space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- From files --------------------------------------------------------------------- */

/* Under one of the family's prefixes, or as it is. */
static int find_part(const lipsc_tensors *t, const lipsc_tensor *tensor, const char *suffix,
                     lipsc_stored *found) {
    char name[sizeof tensor->name + 48];
    const char *const *prefix = t->config->family->prefix;
    for (size_t p = 0; p < LIPSC_PREFIXES && prefix[p]; p++) {
        snprintf(name, sizeof name, "%s%s%s", prefix[p], tensor->name, suffix);
        if (lipsc_checkpoint_find(t->files, name, found)) return 1;
    }
    snprintf(name, sizeof name, "%s%s", tensor->name, suffix);
    return lipsc_checkpoint_find(t->files, name, found);
}

static int find(const lipsc_tensors *t, const lipsc_tensor *tensor, lipsc_stored *found) {
    return find_part(t, tensor, "", found);
}

/* The weights of all experts in four bits: NAME_blocks and NAME_scales. */
typedef struct {
    lipsc_stored blocks, scales;
} packed_pair;

static int find_packed(const lipsc_tensors *t, const lipsc_tensor *tensor,
                       packed_pair *found) {
    return tensor->ndim == 3 && find_part(t, tensor, "_blocks", &found->blocks) &&
           find_part(t, tensor, "_scales", &found->scales);
}

void lipsc_tensors_forget(const lipsc_tensors *t, const lipsc_tensor *tensor) {
    lipsc_stored found;
    if (t->files && find(t, tensor, &found)) lipsc_stored_forget(&found);
}

int lipsc_tensors_has(const lipsc_tensors *t, const lipsc_tensor *tensor) {
    lipsc_stored found;
    packed_pair packed;
    return !t->files || find(t, tensor, &found) || find_packed(t, tensor, &packed);
}

/* Leading ones do not count: (1, n, d) is (n, d). */
static int same_shape(const lipsc_stored *found, const lipsc_tensor *tensor) {
    size_t extra = 0;
    while (extra < found->ndim && found->ndim - extra > tensor->ndim &&
           found->shape[extra] == 1)
        extra++;
    int same = found->ndim - extra == tensor->ndim;
    for (size_t i = 0; same && i < tensor->ndim; i++)
        same = found->shape[extra + i] == tensor->shape[i];
    return same;
}

static lipsc_status check_shape(const lipsc_stored *found, const lipsc_tensor *tensor,
                                const char *suffix, lipsc_error *err) {
    if (same_shape(found, tensor)) return LIPSC_OK;
    char stored[LIPSC_SHOWN_SHAPE], needed[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(found->ndim, found->shape, stored);
    lipsc_show_shape(tensor->ndim, tensor->shape, needed);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: tensor '%s%s' has shape %s, but config.json makes it %s",
                      found->file, tensor->name, suffix, stored, needed);
}

/* tensor is (experts, in, out); blocks are (experts, out, in / 32, 16). */
static lipsc_status check_packed(const packed_pair *packed, const lipsc_tensor *tensor,
                                 lipsc_error *err) {
    const lipsc_stored *parts[] = {&packed->blocks, &packed->scales};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(parts[i]->dtype, "U8") || !parts[i]->in_st)
            return lipsc_fail(
                err, LIPSC_E_FORMAT, "%s: tensor '%s%s' has dtype %s, but U8 is needed",
                parts[i]->file, tensor->name, i ? "_scales" : "_blocks", parts[i]->dtype);
    if (tensor->shape[1] % LIPSC_MXFP4_BLOCK)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: tensor '%s' has %zu columns, which are no blocks of %d",
                          packed->blocks.file, tensor->name, tensor->shape[1],
                          LIPSC_MXFP4_BLOCK);
    lipsc_tensor needed = *tensor;
    needed.ndim = 4;
    needed.shape[1] = tensor->shape[2];
    needed.shape[2] = tensor->shape[1] / LIPSC_MXFP4_BLOCK;
    needed.shape[3] = LIPSC_MXFP4_BLOCK / 2;
    lipsc_status status = check_shape(&packed->blocks, &needed, "_blocks", err);
    needed.ndim = 3;
    return status ? status : check_shape(&packed->scales, &needed, "_scales", err);
}

lipsc_status lipsc_tensors_check(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                 lipsc_error *err) {
    if (!t->files) return LIPSC_OK;
    lipsc_stored found;
    packed_pair packed;
    if (!find(t, tensor, &found)) {
        if (find_packed(t, tensor, &packed)) return check_packed(&packed, tensor, err);
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor '%s' is missing",
                          lipsc_checkpoint_shown(t->files), tensor->name);
    }
    if (!found.readable)
        return lipsc_fail(
            err, LIPSC_E_FORMAT,
            "%s: tensor '%s' has dtype %s, but F64, F32, F16 or BF16 is needed", found.file,
            tensor->name, found.dtype);
    return check_shape(&found, tensor, "", err);
}

enum { MANY = 1 << 16 }; /* numbers: pages of smaller tensors are not worth a call */

static lipsc_status read_stored(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                size_t first, size_t count, double *out, lipsc_error *err) {
    lipsc_stored found;
    packed_pair packed;
    lipsc_status status = lipsc_tensors_check(t, tensor, err);
    if (status) return status;
    if (find(t, tensor, &found)) {
        status = lipsc_stored_read(&found, first, count, out, err);
    } else {
        find_packed(t, tensor, &packed);
        const lipsc_mxfp4 m = {packed.blocks.in_st->data, packed.scales.in_st->data,
                               tensor->shape[2], tensor->shape[1]};
        lipsc_mxfp4_read(&m, first, count, out);
        found = packed.blocks;
    }
    if (count >= MANY) lipsc_stored_forget(&found);
    if (status) return status;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN,
                              "%s: tensor '%s': entry %zu is not finite", found.file,
                              tensor->name, first + i);
    return LIPSC_OK;
}

/* ---- At random ---------------------------------------------------------------------- */

/* FNV-1a */
static uint64_t hash_name(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* x[i]: number first + i of the stream to a few units in the last place, or, near a zero of
 * sine or cosine, to 2^-47: no number's length is above 8.7, and the C library's angle, up
 * to 2 pi, is rounded to 7e-16.  Becomes deviation times that number, rounded to float.
 * Where so little decides to which float, lipsc_rng_normal says which. */
static void round_numbers(double deviation, uint64_t stream, size_t first, size_t count,
                          double *x) {
    int open = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = 0x1p-46 + 0x1p-48 * fabs(x[i]);
        const float low = (float)(deviation * (x[i] - error));
        const float high = (float)(deviation * (x[i] + error));
        open |= low != high;
        x[i] = low == high ? (double)low : NAN;
    }
    for (size_t i = 0; open && i < count; i++)
        if (isnan(x[i]))
            x[i] = (double)(float)(deviation * lipsc_rng_normal(stream, first + i));
}

static void make_normal(double deviation, uint64_t stream, size_t first, size_t count,
                        double *out) {
    enum { AT_ONCE = 4096 }; /* stay in the cache */
    const lipsc_space *host = lipsc_space_host(LIPSC_F64);
#pragma omp parallel for schedule(static) if (count > 16 * AT_ONCE)
    for (size_t from = 0; from < count; from += AT_ONCE) {
        const size_t some = count - from < AT_ONCE ? count - from : AT_ONCE;
        /* host memory of these sizes: nothing that could fail */
        (void)!lipsc_space_random(host, stream, first + from, some,
                                  lipsc_host_view(some, out + from));
        round_numbers(deviation, stream, first + from, some, out + from);
    }
}

static void make_random(const lipsc_tensors *t, const lipsc_tensor *tensor, size_t first,
                        size_t count, double *out) {
    const size_t row = tensor->shape[tensor->ndim - 1], zero = tensor->zero_row;
    if (tensor->deviation == 0) {
        for (size_t i = 0; i < count; i++) out[i] = tensor->constant;
        return;
    }
    make_normal(tensor->deviation, lipsc_rng_bits(t->seed, hash_name(tensor->name)), first,
                count, out);
    for (size_t at = first; zero != LIPSC_NO_TOKEN && at < first + count; at++)
        if (at / row == zero) out[at - first] = 0.0;
}

lipsc_status lipsc_tensors_read(const lipsc_tensors *t, const lipsc_tensor *tensor,
                                size_t first, size_t count, double *out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    if (t->files)
        status = read_stored(t, tensor, first, count, out, err);
    else
        make_random(t, tensor, first, count, out);
    for (size_t i = 0; !status && tensor->offset != 0 && i < count; i++)
        out[i] += tensor->offset;
    return status;
}
