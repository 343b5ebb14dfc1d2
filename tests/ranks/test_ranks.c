/* test_ranks.c - one input whose rows several ranks share, beside one process and the
 * definition: every mask and feature, lengths that do not divide, fewer rows than ranks.
 *     mpirun -n K test_ranks [DEVICE [few]] */
#include "unit/chosen.h"
#include "unit/layers.h"

#include "backend/ranks/split.h"
#include "core/error.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>

static lipsc_ranks *ranks;
static lipsc_device *shared;
static int failures, gpu; /* gpu: products have bits of their own */

static void check(int good, const char *what, uint64_t seed, unsigned features, size_t n,
                  double found, double wanted) {
    if (good) return;
    failures++;
    fprintf(stderr, "rank %zu: %s: seed %llu, features %x, n %zu: %.17g, not %.17g\n",
            lipsc_ranks_number(ranks), what, (unsigned long long)seed, features, n, found,
            wanted);
}

static lipsc_attn *make(const test_layer *t, lipsc_dtype dtype, lipsc_device *device) {
    lipsc_attn *attn = NULL;
    lipsc_error err = {.text = ""};
    if (lipsc_attn_new(&t->layer, &t->input, dtype, device, &attn, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return attn;
}

/* A GPU says that it cannot. */
static int is_refused(const test_layer *t) {
    lipsc_attn *attn = NULL;
    lipsc_error err = {.text = ""};
    const lipsc_status status =
        lipsc_attn_new(&t->layer, &t->input, LIPSC_F64, shared, &attn, &err);
    lipsc_attn_free(attn);
    return status == LIPSC_E_BACKEND && strstr(err.text, "by distance");
}

/* Products beside the definition; J x has the bits of one process. */
static void products(uint64_t seed, unsigned features, const test_layer *t, size_t k) {
    lipsc_attn *one = make(t, LIPSC_F64, NULL), *all = make(t, LIPSC_F64, shared);
    for (int trans = 0; trans < 2; trans++) {
        const size_t from = k * (trans ? t->out : t->in), to = k * (trans ? t->in : t->out);
        double *x = random_vectors(seed, from), *want = random_vectors(1, to),
               *got = random_vectors(2, to), *single = random_vectors(3, to);
        lipsc_ref_apply(&t->layer, &t->input, trans, k, x, want, NULL);
        lipsc_attn_apply(one, trans, k, x, single);
        const lipsc_status status = lipsc_attn_apply(all, trans, k, x, got);
        const double size = vector_norm(to, want);
        check(!status && vector_distance(to, got, want) <= 1e-11 * size, "product", seed,
              features, t->input.n, vector_distance(to, got, want), size);
        if (!trans && !gpu)
            check(!memcmp(got, single, to * sizeof *got), "bits of J x", seed, features,
                  t->input.n, got[0], single[0]);
        free(x);
        free(want);
        free(got);
        free(single);
    }
    lipsc_attn_free(one);
    lipsc_attn_free(all);
}

static void sigma(uint64_t seed, unsigned features, const test_layer *t,
                  lipsc_dtype dtype) {
    lipsc_svd_settings set;
    lipsc_svd_info a, b;
    double want = 0.0, got = 0.0;
    lipsc_svd_defaults(&set);
    /* a GPU seeks from another direction than a CPU that has turned the layer: so far that
     * what is left of the residual, squared, is below the tolerance */
    set.tol = dtype == LIPSC_F64 ? 1e-9 : gpu ? 1e-4 : 1e-3;
    set.max_products = 5000;
    lipsc_attn *one = make(t, dtype, NULL), *all = make(t, dtype, shared);
    double *v = random_vectors(4, t->in), *u = random_vectors(5, t->out);
    lipsc_attn_sigma(one, &set, &want, NULL, NULL, &a);
    lipsc_attn_sigma(all, &set, &got, u, v, &b);
    check(fabs(got - want) <= (dtype == LIPSC_F64 ? 1e-12 : 1e-6) * want, "sigma", seed,
          features, t->input.n, got, want);
    /* every rank has the direction, and it does what is said */
    double *image = random_vectors(6, t->out);
    lipsc_ref_apply(&t->layer, &t->input, 0, 1, v, image, NULL);
    check(fabs(vector_norm(t->out, image) - got) <= 1e-9 * got, "direction", seed, features,
          t->input.n, vector_norm(t->out, image), got);
    check(isnan(a.lower) == isnan(b.lower) && !(b.lower > got), "lower", seed, features,
          t->input.n, b.lower, a.lower);
    free(image);
    free(u);
    free(v);
    lipsc_attn_free(one);
    lipsc_attn_free(all);
}

/* What failed on some ranks, each in its way, has failed on all in one way: what is tried
 * next all try. */
static void agreement(void) {
    const size_t own = lipsc_ranks_number(ranks), last = lipsc_ranks_count(ranks) - 1;
    static const struct {
        lipsc_status first, last, all;
        const char *said;
    } cases[] = {{LIPSC_OK, LIPSC_OK, LIPSC_OK, ""},
                 {LIPSC_E_NOMEM, LIPSC_E_NONFIN, LIPSC_E_NOMEM, "of rank 0"},
                 {LIPSC_E_NONFIN, LIPSC_E_NOMEM, LIPSC_E_NONFIN, "of rank 0"},
                 {LIPSC_E_RANGE, LIPSC_OK, LIPSC_E_RANGE, "of rank 0"},
                 {LIPSC_OK, LIPSC_E_RANGE, LIPSC_E_RANGE, "of rank 9"},
                 {LIPSC_OK, LIPSC_OK, LIPSC_OK, ""}};
    const lipsc_row_split split = {.ranks = ranks};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lipsc_error err = {.text = ""};
        const lipsc_status mine = own == 0      ? cases[i].first
                                  : own == last ? cases[i].last
                                                : LIPSC_OK;
        if (mine) lipsc_fail(&err, mine, "of rank %d", own ? 9 : 0);
        const lipsc_status agreed = lipsc_split_agree(&split, mine, &err);
        check(agreed == cases[i].all && !!strstr(err.text, cases[i].said), err.text, i, 0,
              own, (double)agreed, (double)cases[i].all);
        check(lipsc_ranks_awaited(ranks) == !cases[i].all, "awaited", i, 0, own,
              (double)lipsc_ranks_awaited(ranks), (double)!cases[i].all);
    }
}

int main(int argc, char **argv) {
    static const unsigned kinds[] = {0,
                                     FEATURE_CAUSAL,
                                     FEATURE_SLIDING,
                                     FEATURE_LOCAL,
                                     FEATURE_TIMES,
                                     FEATURE_WEIGHTS,
                                     FEATURE_CAUSAL | FEATURE_GROUPED | FEATURE_ROTARY,
                                     FEATURE_TIMES | FEATURE_WEIGHTS | FEATURE_GROUPED,
                                     FEATURE_CAUSAL | FEATURE_QK_NORM | FEATURE_ROTARY,
                                     FEATURE_WHOLE_NORM | FEATURE_BIASES,
                                     FEATURE_ALIBI | FEATURE_CAUSAL,
                                     FEATURE_BUCKETS | FEATURE_NO_OUTPUT,
                                     FEATURE_SOFT_CAP | FEATURE_SLIDING,
                                     FEATURE_SINKS | FEATURE_CAUSAL | FEATURE_GROUPED,
                                     FEATURE_A_FORM | FEATURE_CAUSAL};
    static const size_t lengths[] = {1, 2, 3, 7, 33, 130};
    lipsc_error err = {.text = ""};
    const char *name = argc > 1 ? argv[1] : "cpu"; /* of each rank */
    if (lipsc_ranks_open(&ranks, &err) ||
        lipsc_device_share(ranks, name, 2, &shared, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (lipsc_ranks_count(ranks) < 2) return 77;
    gpu = !strncmp(name, "cuda", 4);
    const char *wanted = getenv("WANT_DIRECT"); /* whether rows travel without the host */
    if (wanted && lipsc_ranks_direct(ranks) != (*wanted == '1')) {
        fprintf(stderr, "rows travel %s\n", *wanted == '1' ? "by the host" : "directly");
        failures++;
    }
    agreement();
    const int few = argc > 2; /* of the cases */
    const size_t count = sizeof lengths / sizeof *lengths,
                 share = fewer() < count ? (size_t)fewer() : count;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t j = 0; j < count; j++) {
            const uint64_t seed = 100 * i + j;
            if (few && seed % 7) continue;
            /* another number of ranks takes others; each kind has a length */
            if (!few && (i + j + lipsc_ranks_count(ranks)) % share) continue;
            const layer_sizes sizes = {.n = lengths[j], .window = lengths[j] / 3 + 1};
            test_layer t = random_layer_of(seed, kinds[i], sizes);
            if (gpu && is_refused(&t)) {
                test_layer_free(&t);
                continue;
            }
            products(seed, kinds[i], &t, 1 + seed % 11);
            sigma(seed, kinds[i], &t, LIPSC_F64);
            if (j > 3) sigma(seed, kinds[i], &t, LIPSC_F32);
            test_layer_free(&t);
        }
    /* several tiles of rows and of keys in each piece of three ranks */
    const layer_sizes large = {
        .n = 601, .d = 24, .heads = 4, .kv_heads = 2, .key_dim = 8, .value_dim = 6};
    test_layer t =
        random_layer_of(9, FEATURE_CAUSAL | FEATURE_GROUPED | FEATURE_ROTARY, large);
    products(9, FEATURE_CAUSAL, &t, 3);
    sigma(9, FEATURE_CAUSAL, &t, LIPSC_F64);
    test_layer_free(&t);
    /* so wide that f32 is solved for in other coordinates: each rank turns its own rows, of
     * which it may have none, in the order of the device, and turns its part back */
    static const struct {
        size_t n;
        unsigned features;
    } turned[] = {{1, FEATURE_NO_OUTPUT},
                  {2, FEATURE_CAUSAL | FEATURE_ROTARY | FEATURE_BIASES},
                  {17, FEATURE_TIMES | FEATURE_WEIGHTS | FEATURE_GROUPED}};
    for (uint64_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        const layer_sizes wide = {.n = turned[i].n,
                                  .d = 256,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .key_dim = 16,
                                  .value_dim = 32,
                                  .out_dim = 256};
        test_layer w = random_layer_of(20 + i, turned[i].features, wide);
        sigma(20 + i, turned[i].features, &w, LIPSC_F32);
        test_layer_free(&w);
    }
    lipsc_device_close(shared);
    lipsc_ranks_close(ranks);
    if (failures) fprintf(stderr, "%d failures\n", failures);
    return failures != 0;
}
