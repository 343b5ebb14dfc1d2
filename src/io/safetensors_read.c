/* safetensors_read.c - entries of a tensor -> double or float, from F64, F32, F16, BF16.
 * Numbers are put together byte by byte: right on any alignment and any byte order, and
 * compilers turn it into plain loads where they can. */
#include "core/error.h"
#include "core/half.h"
#include "io/safetensors.h"
#include "io/show.h"

static uint16_t load16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static uint32_t load32(const uint8_t *p) {
    return (uint32_t)load16(p) | (uint32_t)load16(p + 2) << 16;
}

static uint64_t load64(const uint8_t *p) {
    return (uint64_t)load32(p) | (uint64_t)load32(p + 4) << 32;
}

static lipsc_status check(const lipsc_st *st, const lipsc_st_tensor *t, size_t first,
                          size_t count, lipsc_error *err) {
    char shown[LIPSC_SHOWN_NAME];
    if (t->type == LIPSC_ST_OTHER) {
        lipsc_show_name(t->name, shown);
        return lipsc_fail_at(err, LIPSC_E_FORMAT, t->offset,
                             "%s: tensor '%s' has dtype %s, but F64, F32, F16 or BF16 is "
                             "needed",
                             lipsc_st_path(st), shown, t->dtype);
    }
    if (first > t->count || count > t->count - first) {
        lipsc_show_name(t->name, shown);
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: tensor '%s' has only %zu entries",
                          lipsc_st_path(st), shown, t->count);
    }
    return LIPSC_OK;
}

static void decode(const lipsc_st_tensor *t, size_t first, size_t count, double *out) {
    const uint8_t *p = t->data;
    switch (t->type) {
    case LIPSC_ST_F64:
        for (size_t i = 0; i < count; i++) {
            const uint64_t bits = load64(p + 8 * (first + i));
            memcpy(&out[i], &bits, sizeof bits);
        }
        break;
    case LIPSC_ST_F32:
        for (size_t i = 0; i < count; i++)
            out[i] = lipsc_float_from_bits(load32(p + 4 * (first + i)));
        break;
    case LIPSC_ST_F16:
        for (size_t i = 0; i < count; i++)
            out[i] = lipsc_f16_to_float(load16(p + 2 * (first + i)));
        break;
    case LIPSC_ST_BF16:
        for (size_t i = 0; i < count; i++)
            out[i] = lipsc_bf16_to_float(load16(p + 2 * (first + i)));
        break;
    case LIPSC_ST_OTHER:
        break; /* refused by check */
    }
}

lipsc_status lipsc_st_read_f64(const lipsc_st *st, const lipsc_st_tensor *tensor,
                               size_t first, size_t count, double *out, lipsc_error *err) {
    const lipsc_status status = check(st, tensor, first, count, err);
    if (!status) decode(tensor, first, count, out);
    return status;
}

lipsc_status lipsc_st_read_f32(const lipsc_st *st, const lipsc_st_tensor *tensor,
                               size_t first, size_t count, float *out, lipsc_error *err) {
    enum { CHUNK = 512 };
    double chunk[CHUNK]; /* through double: exact for all but F64, which is to be rounded */
    const lipsc_status status = check(st, tensor, first, count, err);
    if (status) return status;
    for (size_t done = 0; done < count;) {
        const size_t now = count - done < CHUNK ? count - done : CHUNK;
        decode(tensor, first + done, now, chunk);
        for (size_t i = 0; i < now; i++) out[done + i] = (float)chunk[i];
        done += now;
    }
    return LIPSC_OK;
}
