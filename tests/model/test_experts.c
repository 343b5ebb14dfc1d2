/* test_experts.c - routing_gap against brute force: the lead of the chosen experts from the
 * router's own tensor, and the place on a line where the output of the experts jumps. */
#include "core/extreme.h"
#include "fixture.h"

#include "core/rng.h"
#include "model/experts.h"

enum { MOST_EXPERTS = 8, MOST_WIDTH = 64 };

/* A router as the file has it. */
typedef struct {
    size_t experts, used, d;
    double W[MOST_EXPERTS * MOST_WIDTH], b[MOST_EXPERTS];
} router;

static int read_tensor(lipsc_st *st, const char *name, double *to) {
    const lipsc_st_tensor *t = lipsc_st_find(st, name);
    if (!t) return 0;
    assert_int_equal(lipsc_st_read_f64(st, t, 0, t->count, to, NULL), LIPSC_OK);
    return 1;
}

static void read_router(const fixture *f, router *r) {
    static const char *const names[] = {"layers.0.block_sparse_moe.gate.weight",
                                        "layers.0.mlp.router.weight"};
    char path[PATH_SIZE + 32];
    lipsc_st *st;
    lipsc_error err = {0};
    const lipsc_config *c = &f->model->config;
    snprintf(path, sizeof path, "%s/model.safetensors", f->dir);
    if (lipsc_st_open(path, &st, &err)) fail_msg("%s", err.text);
    memset(r, 0, sizeof *r);
    r->experts = c->experts, r->used = c->experts_used, r->d = c->d;
    assert_true(r->experts <= MOST_EXPERTS && r->d <= MOST_WIDTH);
    assert_true(read_tensor(st, names[0], r->W) || read_tensor(st, names[1], r->W));
    read_tensor(st, "layers.0.mlp.router.bias", r->b);
    lipsc_st_free(st);
}

static int downwards(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The lead of the last expert that is chosen over the first that is not. */
static double brute_gap(const router *r, const double *x) {
    double logits[MOST_EXPERTS];
    for (size_t e = 0; e < r->experts; e++) {
        long double sum = r->b[e];
        for (size_t c = 0; c < r->d; c++) sum += (long double)r->W[e * r->d + c] * x[c];
        logits[e] = (double)sum;
    }
    qsort(logits, r->experts, sizeof *logits, downwards);
    return logits[r->used - 1] - logits[r->used];
}

/* What the experts return for one token, and their gap. */
static double run(const fixture *f, const double *x, double *y) {
    const lipsc_space *space = lipsc_device_space(f->model->home, LIPSC_F64);
    const size_t d = f->model->config.d;
    lipsc_experts *experts;
    lipsc_error err = {0};
    const lipsc_buffer in = lipsc_space_alloc(space, d), out = lipsc_space_alloc(space, d);
    assert_int_equal(lipsc_space_upload(space, d, x, in), LIPSC_OK);
    if (lipsc_experts_at(f->model, 0, LIPSC_F64, f->model->home, 1, in, 0, out, &experts,
                         &err))
        fail_msg("%s", err.text);
    assert_int_equal(lipsc_space_download(space, d, out, y), LIPSC_OK);
    const double gap = lipsc_experts_gap(experts);
    lipsc_experts_free(experts);
    lipsc_space_release(space, in);
    lipsc_space_release(space, out);
    return gap;
}

/* at = x + t h */
static void walk(size_t d, const double *x, const double *h, double t, double *at) {
    for (size_t c = 0; c < d; c++) at[c] = x[c] + t * h[c];
}

static double distance(size_t d, const double *a, const double *b) {
    double square = 0;
    for (size_t c = 0; c < d; c++) square += (a[c] - b[c]) * (a[c] - b[c]);
    return sqrt(square);
}

/* Bisects the line between two points whose outputs are further apart than continuity
 * allows, down to a step of 1e-12: what is left there is a jump, or it was none. */
static double find_jump(const fixture *f, const router *r, const double *x, const double *h,
                        double low, double high, double *jump) {
    double at[MOST_WIDTH], y[3][MOST_WIDTH];
    while (high - low > 1e-12) {
        const double middle = 0.5 * (low + high);
        walk(r->d, x, h, low, at), run(f, at, y[0]);
        walk(r->d, x, h, middle, at), run(f, at, y[1]);
        walk(r->d, x, h, high, at), run(f, at, y[2]);
        if (distance(r->d, y[0], y[1]) > distance(r->d, y[1], y[2]))
            high = middle;
        else
            low = middle;
    }
    walk(r->d, x, h, low, at), run(f, at, y[0]);
    walk(r->d, x, h, high, at), run(f, at, y[2]);
    *jump = distance(r->d, y[0], y[2]);
    return 0.5 * (low + high);
}

/* Along one line: the gap is that of the router everywhere, and vanishes where, and only
 * where, the output jumps. */
static size_t follow_line(const fixture *f, const router *r, uint64_t seed) {
    enum { STEPS = 64 };
    double x[MOST_WIDTH], h[MOST_WIDTH], at[MOST_WIDTH], y[2][MOST_WIDTH], size = 0;
    size_t jumps = 0;
    for (size_t c = 0; c < r->d; c++) {
        x[c] = lipsc_rng_normal(seed, c);
        h[c] = lipsc_rng_normal(seed, 100 + c);
    }
    for (size_t e = 0; e < r->experts; e++)
        size = lipsc_max(size, sqrt((double)r->d) * fabs(r->W[e * r->d]) + fabs(r->b[e]));
    for (int s = 0; s <= STEPS; s++) {
        const double t = (double)s / STEPS;
        walk(r->d, x, h, t, at);
        const double gap = run(f, at, y[s % 2]);
        assert_true(fabs(gap - brute_gap(r, at)) <= 1e-12 * (1 + size));
        if (s == 0) continue;
        double jump;
        const double where = find_jump(f, r, x, h, t - 1.0 / STEPS, t, &jump);
        walk(r->d, x, h, where, at);
        const double left = run(f, at, y[(s + 1) % 2]);
        /* a step of 1e-12 moves continuous outputs by 1e-10 at the most, and the gap of a
         * switch is what 1e-12 of the line are worth */
        if (jump > 1e-6) {
            jumps++;
            assert_true(left <= 1e-9);
        } else {
            assert_true(jump < 1e-9);
        }
    }
    return jumps;
}

static void test_gap_is_the_distance_of_a_switch(void **state) {
    (void)state;
    static const char *const families[] = {"mixtral-1", "gpt_oss-1"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        fixture f;
        router r;
        size_t jumps = 0;
        fixture_open(&f, families[i]);
        read_router(&f, &r);
        for (uint64_t seed = 1; seed <= 6; seed++) jumps += follow_line(&f, &r, seed);
        if (!jumps) fail_msg("%s: no line met a switch", families[i]);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gap_is_the_distance_of_a_switch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
