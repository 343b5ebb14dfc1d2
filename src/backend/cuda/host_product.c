/* host_product.c - products, outputs and gradients of attention on a GPU, by the plugin's.
 */
#include <string.h>

#include "backend/cuda/host_batch.h"
#include "core/mem.h"

/* The rows of the products' inputs to or from their places in a vector of the batch. */
static lipsc_status move(const lipsc_device *device, const batch *b, size_t count,
                         const lipsc_product *product, size_t dir, size_t dirs,
                         size_t width, int in) {
    for (size_t i = 0; i < count; i++) {
        const input *of = product[i].of;
        const size_t bytes = of->n * width * b->item;
        for (size_t k = 0; k < dirs; k++) {
            char *all =
                (char *)(in ? b->x : b->y) + (k * b->tokens + of->first) * width * b->item;
            char *own =
                (char *)(in ? (uintptr_t)product[i].x.at : (uintptr_t)product[i].y.at) +
                (dir + k) * bytes;
            b->pieces[i * dirs + k] =
                (lipsc_cuda_piece){bytes, in ? own : all, in ? all : own};
        }
    }
    LIPSC_GPU_CALL(copies, lipsc_gpu_of(device)->there, count * dirs, b->pieces);
}

static lipsc_status tell_active(const lipsc_device *device, const batch *b,
                                const int *active) {
    LIPSC_GPU_CALL(activate, b->there, active);
}

/* Whoever has a product is worked on; the plugin hears of it where that changed. */
static lipsc_status activate(const lipsc_device *device, batch *b, size_t count,
                             const lipsc_product *product) {
    const size_t bytes = b->count * sizeof *b->active;
    memset(b->active, 0, bytes);
    for (size_t i = 0; i < count; i++) b->active[((const input *)product[i].of)->place] = 1;
    if (!memcmp(b->active, b->told, bytes)) return LIPSC_OK;
    const lipsc_status status =
        tell_active(device, b, count == b->count ? NULL : b->active);
    if (!status) memcpy(b->told, b->active, bytes);
    return status;
}

static lipsc_status multiply(const lipsc_device *device, const batch *b, int trans,
                             size_t k, const void *x, void *y) {
    LIPSC_GPU_CALL(product, b->there, trans, k, x, y, 0);
}

/* Products of the same number of directions with inputs of one batch. */
static lipsc_status together(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    batch *b = ((const input *)product[0].of)->of;
    const size_t from = trans ? b->width : b->d, to = trans ? b->d : b->width;
    lipsc_status status = activate(device, b, count, product);
    for (size_t dir = 0; !status && dir < product[0].k; dir += DIRECTIONS) {
        const size_t left = product[0].k - dir,
                     dirs = left < DIRECTIONS ? left : DIRECTIONS;
        status = move(device, b, count, product, dir, dirs, from, 1);
        if (!status) status = multiply(device, b, trans, dirs, b->x, b->y);
        if (!status) status = move(device, b, count, product, dir, dirs, to, 0);
    }
    return status;
}

lipsc_status lipsc_gpu_product(const lipsc_device *device, void *made, int trans, size_t k,
                               lipsc_buffer x, lipsc_buffer y) {
    input *in = made;
    batch *b = in->of;
    if (b->count > 1) {
        const lipsc_product one = {.of = made, .k = k, .x = x, .y = y};
        return together(device, trans, 1, &one);
    }
    const size_t from = in->n * (trans ? b->width : b->d) * b->item;
    const size_t to = in->n * (trans ? b->d : b->width) * b->item;
    lipsc_status status = LIPSC_OK;
    for (size_t dir = 0; !status && dir < k; dir += b->dirs)
        status = multiply(device, b, trans, k - dir < b->dirs ? k - dir : b->dirs,
                          (const char *)x.at + dir * from, (char *)y.at + dir * to);
    return status;
}

static int go_together(const lipsc_product *p, const lipsc_product *q) {
    return p->k == q->k && ((const input *)p->of)->of == ((const input *)q->of)->of;
}

/* Those that go with the first of all that are left, moved before the others. */
static size_t gather(size_t count, lipsc_product *left) {
    size_t found = 1;
    for (size_t i = 1; i < count; i++)
        if (go_together(&left[0], &left[i])) {
            const lipsc_product moved = left[found];
            left[found++] = left[i];
            left[i] = moved;
        }
    return found;
}

lipsc_status lipsc_gpu_products(const lipsc_device *device, int trans, size_t count,
                                const lipsc_product *product) {
    lipsc_product *left = lipsc_alloc(count, sizeof *left);
    lipsc_status status = left ? LIPSC_OK : LIPSC_E_NOMEM;
    if (left) memcpy(left, product, count * sizeof *left);
    for (size_t done = 0, now; done < count && !status; done += now) {
        const lipsc_product *first = &left[done];
        now = gather(count - done, &left[done]);
        status = now > 1 ? together(device, trans, now, first)
                         : lipsc_gpu_product(device, first->of, trans, first->k, first->x,
                                             first->y);
    }
    lipsc_release(left);
    return status;
}

size_t lipsc_gpu_bytes(const lipsc_device *device, const void *made) {
    return lipsc_gpu_of(device)->api->batch_bytes(((const input *)made)->of->there);
}

lipsc_status lipsc_gpu_projections(const lipsc_device *device, const void *made,
                                   size_t head, double *q, double *key, double *z,
                                   double *q_over, double *k_over) {
    const input *in = made;
    LIPSC_GPU_CALL(projections, in->of->there, in->place, head, q, key, z, q_over, k_over);
}

lipsc_status lipsc_gpu_spread(const lipsc_device *device, void *made, double *entropy,
                              double *columns) {
    const input *in = made;
    LIPSC_GPU_CALL(spread, in->of->there, in->place, entropy, columns);
}

static lipsc_status write_output(const lipsc_device *device, const input *in,
                                 lipsc_buffer y) {
    LIPSC_GPU_CALL(output, in->of->there, in->place, y.type == LIPSC_F64, y.at);
}

lipsc_status lipsc_gpu_output(const lipsc_device *device, void *made, lipsc_buffer y) {
    const input *in = made;
    const size_t count = in->n * in->of->width;
    const lipsc_device *home = y.home ? lipsc_device_home(device) : NULL;
    if (!lipsc_buffer_fits(y, home, home ? y.type : LIPSC_F64, 1, count))
        return LIPSC_E_ARG;
    if (home) return write_output(device, in, y);
    const lipsc_space *wide = lipsc_device_space(device, LIPSC_F64);
    const lipsc_buffer there = lipsc_space_alloc(wide, count);
    lipsc_status status = there.at ? write_output(device, in, there) : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_download(wide, count, there, y.at);
    lipsc_space_release(wide, there);
    return status;
}

/* ---- Gradients, in f64 --------------------------------------------------------------- */

static lipsc_status pair_gradient(const lipsc_device *device, const batch *b, const void *u,
                                  const void *v, void *grad, void *grad_score) {
    LIPSC_GPU_CALL(gradient, b->there, u, v, grad, grad_score);
}

/* A vector of the batch with rows of `width` numbers, zero but for those of `in`, which are
 * x; NULL: there is no memory. */
static void *spread_rows(const lipsc_device *device, const input *in, size_t width,
                         const void *x) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    const batch *b = in->of;
    const size_t row = width * b->item;
    double *zeros = lipsc_alloc_zero(b->tokens * width, sizeof *zeros);
    lipsc_error why = {.text = ""};
    void *all = NULL;
    if (!zeros) return NULL;
    lipsc_status status = gpu->api->alloc(gpu->there, b->tokens * row, &all, &why);
    if (!status)
        status = gpu->api->put(gpu->there, b->item == sizeof(double), b->tokens * width,
                               zeros, all, &why);
    lipsc_release(zeros);
    if (!status && x)
        status =
            gpu->api->copy(gpu->there, in->n * row, x, (char *)all + in->first * row, &why);
    if (status) (void)!lipsc_gpu_said(device, status, &why);
    if (status && all) gpu->api->release(gpu->there, all);
    return status ? NULL : all;
}

/* The rows of `in` back from a vector of the batch. */
static lipsc_status take_rows(const lipsc_device *device, const input *in, size_t width,
                              const void *all, void *y) {
    const size_t row = width * in->of->item;
    LIPSC_GPU_CALL(copy, lipsc_gpu_of(device)->there, in->n * row,
                   (const char *)all + in->first * row, y);
}

/* One input of several: the plugin's gradients are those of the whole batch. */
static lipsc_status member_gradient(const lipsc_device *device, const input *in,
                                    const void *u, const void *v, void *grad,
                                    void *grad_score) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    const batch *b = in->of;
    void *all[] = {spread_rows(device, in, b->width, u), spread_rows(device, in, b->d, v),
                   spread_rows(device, in, b->d, NULL),
                   grad_score ? spread_rows(device, in, 1, NULL) : NULL};
    lipsc_status status =
        all[0] && all[1] && all[2] && (all[3] || !grad_score) ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = pair_gradient(device, b, all[0], all[1], all[2], all[3]);
    if (!status) status = take_rows(device, in, b->d, all[2], grad);
    if (!status && grad_score) status = take_rows(device, in, 1, all[3], grad_score);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) gpu->api->release(gpu->there, all[i]);
    return status;
}

lipsc_status lipsc_gpu_gradient(const lipsc_device *device, void *made, size_t k,
                                lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                                lipsc_buffer grad_score) {
    const input *in = made;
    const batch *b = in->of;
    const size_t wide = in->n * b->width * b->item, deep = in->n * b->d * b->item;
    lipsc_status status = LIPSC_OK;
    for (size_t p = 0; p < k && !status; p++) {
        const void *u_p = (const char *)u.at + p * wide,
                   *v_p = (const char *)v.at + p * deep;
        void *to = (char *)grad.at + p * deep,
             *score = grad_score.at ? (char *)grad_score.at + p * in->n * b->item : NULL;
        status = b->count == 1 ? pair_gradient(device, b, u_p, v_p, to, score)
                               : member_gradient(device, in, u_p, v_p, to, score);
    }
    return status;
}
