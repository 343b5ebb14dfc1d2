/* starts.c - where climbs begin: constructions of every head, the given input, random
 * inputs, and the best constructions once more with a little noise.
 *
 * The gradient moves equal tokens alike, so that a construction keeps its few points; noise
 * sets its tokens free. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attack/search.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"

/* ---- Constructions ------------------------------------------------------------------ */

/* A head in the parameters y of the region, where constructions live in the unit ball or
 * on the unit sphere: of a norm's image q = Q (sqrt(d) g o y + b) + bq with the mean of y
 * taken off; of the others x = R y. */
typedef struct {
    lipsc_layer layer;
    double *storage; /* NULL: the layer as it is */
    double radius;   /* of the constructions     */
} pulled;

/* to (rows, d) = from diag(gain sqrt(d)) (I - 11^T/d if centred) */
static void pull_matrix(const lipsc_region *r, size_t rows, const double *from,
                        double *to) {
    const size_t d = r->d;
    for (size_t k = 0; k < rows; k++) {
        double mean = 0.0;
        for (size_t c = 0; c < d; c++) {
            to[k * d + c] = from[k * d + c] * r->gain[c] * r->radius;
            mean += to[k * d + c] / (double)d;
        }
        for (size_t c = 0; r->centred && c < d; c++) to[k * d + c] -= mean;
    }
}

static lipsc_status pull_layer(const lipsc_search *s, pulled *p) {
    const lipsc_region *r = &s->region;
    p->layer = *s->layer;
    p->storage = NULL;
    p->radius = lipsc_region_reach(r);
    if (r->kind != LIPSC_ATTACK_NORM) return LIPSC_OK;
    lipsc_layer *l = &p->layer;
    const size_t d = l->d, query = l->heads * l->key_dim, key = l->kv_heads * l->key_dim,
                 value = l->kv_heads * l->value_dim;
    p->radius = 1.0;
    p->storage =
        lipsc_alloc_zero((query + key + value) * d + query + d * d, sizeof *p->storage);
    if (!p->storage) return LIPSC_E_NOMEM;
    double *Q = p->storage, *K = Q + query * d, *V = K + key * d, *bq = V + value * d,
           *identity = bq + query;
    if (!l->K) /* scores (A x_i + c).x_j: the key is the token itself */
        for (size_t c = 0; c < d; c++) identity[c * d + c] = 1.0;
    pull_matrix(r, query, l->Q, Q);
    pull_matrix(r, key, l->K ? l->K : identity, K);
    pull_matrix(r, value, l->V, V);
    for (size_t k = 0; k < query; k++) {
        bq[k] = l->bq ? l->bq[k] : 0.0;
        for (size_t c = 0; r->shift && c < d; c++) bq[k] += l->Q[k * d + c] * r->shift[c];
    }
    l->Q = Q;
    l->K = K;
    l->V = V;
    l->bq = bq;
    return LIPSC_OK;
}

enum {
    ONE,
    EIGEN,
    EIGEN_BACK,
    ADAPTED,
    TWO,
    TWO_LEVEL,
    LINEAR,
    LIGHT,
    DIRACS,
    JOINT, /* of all heads */
    KINDS
};

static const char *const kind_names[KINDS] = {
    "one-outlier",  "eigenvector", "eigenvector", "n-adapted",  "two-outliers",
    "two-outliers", "linear-in-a", "undecided",   "two-diracs", "outliers of many heads"};

static lipsc_status construct(int kind, const lipsc_layer *layer,
                              const lipsc_head_facts *facts, size_t head, double R,
                              size_t n, int masked, int sphere, lipsc_worst *out) {
    const lipsc_head_facts *f = &facts[head];
    switch (kind) {
    case ONE:
        return lipsc_construct_outlier(f, R, n, masked, sphere, out, NULL);
    case EIGEN:
        return lipsc_construct_eigenvector(f, R, n, 1, masked, out, NULL);
    case EIGEN_BACK:
        return f->norm_c > 0.0 ? lipsc_construct_eigenvector(f, R, n, -1, masked, out, NULL)
                               : LIPSC_E_REFUSED;
    case ADAPTED:
        return lipsc_construct_adapted(f, R, n, masked, out, NULL);
    case TWO:
        return lipsc_construct_two(f, R, n, NAN, sphere, out, NULL);
    case TWO_LEVEL: /* the centre at 0: another start, for small layers */
        return layer->heads == 1 ? lipsc_construct_two(f, R, n, 0.0, sphere, out, NULL)
                                 : LIPSC_E_REFUSED;
    case LINEAR:
        return lipsc_construct_linear(f, R, n, out, NULL);
    case LIGHT:
        return lipsc_construct_light(f, R, n, sphere, out);
    case DIRACS:
        return lipsc_construct_diracs(f, R, out, NULL);
    default:
        return layer->heads > 1 ? lipsc_construct_joint(layer, facts, R, n, head, out)
                                : LIPSC_E_REFUSED;
    }
}

/* The construction's tokens, or its atoms shared out over those of the region, as
 * parameters; 0 when they do not fit. */
static int lay_out(const lipsc_search *s, const pulled *p, const lipsc_worst *w, double *X,
                   double *log_weight, double *y) {
    const lipsc_region *r = &s->region;
    if (!r->masses) {
        if (w->n != r->n || lipsc_worst_tokens(w, X)) return 0;
    } else {
        if (w->points > r->n) return 0;
        for (size_t q = 0, i = 0; q < w->points; q++) {
            const size_t share = (r->n - i) / (w->points - q);
            for (size_t part = 0; part < share; part++, i++) {
                memcpy(X + i * r->d, w->X + q * r->d, r->d * sizeof *X);
                log_weight[i] = log(w->count[q] / (double)share);
            }
        }
    }
    if (p->storage) { /* X is y already: enter it through the map of the region */
        for (size_t i = 0; i < r->n; i++)
            for (size_t c = 0; c < r->d; c++)
                X[i * r->d + c] = r->radius * r->gain[c] * X[i * r->d + c] +
                                  (r->shift ? r->shift[c] : 0.0);
    }
    lipsc_region_enter(r, X, r->masses ? log_weight : NULL, y);
    return 1;
}

/* The climbs first .. count-1 hold the best constructions so far, best first. */
typedef struct {
    size_t count;
    lipsc_climb *climbs;
} ranking;

static void rank(const lipsc_search *s, ranking *r, const lipsc_spot *spot) {
    const double same = 1e-9; /* two recipes for one input */
    size_t place = r->count;
    while (place > 0 && spot->sigma > r->climbs[place - 1].spot.sigma) place--;
    if (place == r->count) return;
    for (size_t i = 0; i < r->count; i++)
        if (fabs(spot->sigma - r->climbs[i].spot.sigma) <= same * spot->sigma) return;
    const lipsc_climb last = r->climbs[r->count - 1];
    for (size_t i = r->count - 1; i > place; i--) r->climbs[i] = r->climbs[i - 1];
    r->climbs[place] = last;
    lipsc_spot_copy(s, spot, &r->climbs[place].spot);
}

/* The values of some spots in one batch; one that overflows has 0. */
static lipsc_status judge(lipsc_search *s, size_t count, lipsc_spot *const *spots,
                          lipsc_view **views) {
    for (size_t i = 0; i < count; i++) {
        views[i] = &s->views[i];
        views[i]->y = spots[i]->y;
        views[i]->look = LIPSC_LOOK_FRESH;
        views[i]->seed = (uint64_t)s->evaluations + i;
    }
    const lipsc_status status = lipsc_views_look(s, count, views);
    for (size_t i = 0; i < count && !status; i++) {
        spots[i]->sigma = views[i]->status ? 0.0 : views[i]->sigma[0];
        if (views[i]->status) continue;
        memcpy(spots[i]->v, views[i]->v, s->in * sizeof *spots[i]->v);
        lipsc_search_keep(s, spots[i]);
        lipsc_search_tell(s);
    }
    for (size_t i = 0; i < count; i++) lipsc_view_close(views[i]);
    return status;
}

/* As many at once as are worth it. */
static lipsc_status judge_all(lipsc_search *s, size_t count, lipsc_spot *const *spots) {
    lipsc_view **views = lipsc_alloc(s->together, sizeof *views);
    lipsc_status status = views ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t at = 0; at < count && !status; at += s->together) {
        status = lipsc_search_stopped(s) ? LIPSC_E_STOPPED : LIPSC_OK;
        if (!status)
            status = judge(s, min_size(s->together, count - at), spots + at, views);
    }
    lipsc_release(views);
    return status;
}

typedef struct {
    lipsc_search *s;
    pulled p;
    ranking best;
    size_t waiting, together; /* spots to be judged, and how many of them at once */
    lipsc_spot **spots;       /* (together) */
    double *X, *log_weight;
    lipsc_head_facts *facts; /* (heads) */
} builder;

/* One construction of one head. */
typedef struct {
    size_t head, n;
    int kind, sphere;
    lipsc_status status;
    lipsc_worst worst;
} recipe;

/* Measures are tried with the masses of several lengths (growth stops near e^Delta), and
 * some constructions are measures of their own: n = 0. */
enum { SHORTEST = 4, LONGEST = 1 << 16, LENGTHS = 9 };

static size_t list_kind(const lipsc_region *r, size_t head, int kind, int sphere,
                        recipe *list) {
    size_t found = 0;
    if (!r->masses) {
        if (kind != DIRACS)
            list[found++] =
                (recipe){.head = head, .n = r->n, .kind = kind, .sphere = sphere};
        return found;
    }
    if (kind == DIRACS || kind == LIGHT)
        list[found++] = (recipe){.head = head, .kind = kind, .sphere = sphere};
    for (size_t n = SHORTEST; kind != DIRACS && n <= LONGEST; n *= 4)
        list[found++] = (recipe){.head = head, .n = n, .kind = kind, .sphere = sphere};
    return found;
}

static size_t list_head(const lipsc_region *r, size_t head, recipe *list) {
    const int round = r->kind == LIPSC_ATTACK_SPHERE || r->kind == LIPSC_ATTACK_NORM;
    size_t found = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int sphere = 0; sphere <= round; sphere++)
            found += list_kind(r, head, kind, sphere, list + found);
    return found;
}

/* Constructions know nothing of each other: they are made side by side. */
static void make_all(const builder *b, size_t count, recipe *list) {
    const int masked = b->s->layer->mask == LIPSC_MASK_CAUSAL;
    const int threads = lipsc_device_threads(lipsc_device_cpu(b->s->set->device));
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (size_t i = 0; i < count; i++) {
        recipe *c = &list[i];
        c->status = construct(c->kind, &b->p.layer, b->facts, c->head, b->p.radius, c->n,
                              masked, c->sphere, &c->worst);
    }
}

/* What waits is judged and takes its place. */
static lipsc_status settle(builder *b) {
    lipsc_search *s = b->s;
    const lipsc_status status = judge_all(s, b->waiting, b->spots);
    for (size_t i = 0; i < b->waiting && !status; i++) {
        const lipsc_spot *spot = b->spots[i];
        if (spot->sigma > s->construction.sigma) lipsc_spot_copy(s, spot, &s->construction);
        rank(s, &b->best, spot);
    }
    b->waiting = 0;
    return status;
}

static lipsc_status try_one(builder *b, const recipe *c) {
    lipsc_spot *spot = b->spots[b->waiting];
    if (!lay_out(b->s, &b->p, &c->worst, b->X, b->log_weight, spot->y)) return LIPSC_OK;
    snprintf(spot->start, sizeof spot->start, "%s, head %zu", kind_names[c->kind], c->head);
    return ++b->waiting == b->together ? settle(b) : LIPSC_OK;
}

/* A few heads at a time. */
static lipsc_status try_heads(builder *b, size_t first, size_t last) {
    recipe *list = lipsc_alloc(last - first, 2 * KINDS * LENGTHS * sizeof *list);
    if (!list) return LIPSC_E_NOMEM;
    lipsc_status status = LIPSC_OK;
    size_t count = 0;
    for (size_t h = first; h < last; h++)
        count += list_head(&b->s->region, h, list + count);
    make_all(b, count, list);
    for (size_t i = 0; i < count; i++) {
        if (!status && !list[i].status) status = try_one(b, &list[i]);
        if (!status && list[i].status == LIPSC_E_NOMEM) status = LIPSC_E_NOMEM;
        if (!list[i].status) lipsc_worst_free(&list[i].worst);
    }
    lipsc_release(list);
    return status ? status : settle(b);
}

/* Scores up to a = (|A| R + |c|) R are known to a few eps a.  Where that is no longer small
 * the softmax is one of rounding errors, and so is whatever sigma is found. */
static lipsc_status check_scores(lipsc_search *s, const lipsc_head_facts *f, double R) {
    const double known = 1e10, size = (f->norm_A * R + f->norm_c) * R;
    if (s->layer->q_gain && s->layer->k_gain) return LIPSC_OK; /* whatever the radius */
    s->largest_score = lipsc_max(s->largest_score, size);
    return size <= known ? LIPSC_OK : LIPSC_E_RANGE;
}

/* The best constructions of all heads. */
static lipsc_status build(lipsc_search *s, size_t count, lipsc_climb *climbs) {
    enum { TOGETHER = 4 };
    builder b = {.s = s, .best = {count, climbs}, .together = s->together};
    lipsc_status status = pull_layer(s, &b.p);
    lipsc_spot *room = lipsc_alloc_zero(b.together, sizeof *room);
    b.spots = lipsc_alloc(b.together, sizeof *b.spots);
    if (!room || !b.spots) status = LIPSC_E_NOMEM;
    for (size_t i = 0; i < b.together && !status; i++) {
        b.spots[i] = &room[i];
        status = lipsc_spot_new(s, &room[i]);
    }
    b.X = lipsc_alloc(s->in, sizeof *b.X);
    b.log_weight = lipsc_alloc(s->region.n, sizeof *b.log_weight);
    const size_t heads = s->layer->heads;
    b.facts = lipsc_alloc_zero(heads, sizeof *b.facts);
    if (!b.X || !b.log_weight || !b.facts) status = LIPSC_E_NOMEM;
    for (size_t h = 0; !status && h < heads; h++)
        status = lipsc_head_facts_make(&b.p.layer, h, &b.facts[h]);
    for (size_t h = 0; !status && h < heads; h++)
        status = check_scores(s, &b.facts[h], b.p.radius);
    for (size_t h = 0; !status && h < heads; h += TOGETHER)
        status = try_heads(&b, h, min_size(h + TOGETHER, heads));
    for (size_t h = 0; b.facts && h < heads; h++) lipsc_head_facts_free(&b.facts[h]);
    lipsc_release(b.facts);
    for (size_t i = 0; room && i < b.together; i++) lipsc_spot_free(&room[i]);
    lipsc_release(room);
    lipsc_release(b.spots);
    lipsc_release(b.X);
    lipsc_release(b.log_weight);
    lipsc_release(b.p.storage);
    return status;
}

/* ---- Random inputs ------------------------------------------------------------------ */

typedef struct {
    uint64_t seed, at;
} stream;

static double uniform(stream *r) { return lipsc_rng_uniform(r->seed, r->at++); }

/* A direction with a length up to one, longer ones more often. */
static void random_token(stream *r, size_t d, double *y) {
    double square = 0.0;
    for (size_t c = 0; c < d; c++) {
        y[c] = lipsc_rng_normal(r->seed, r->at++);
        square += y[c] * y[c];
    }
    const double length = sqrt(uniform(r)) / sqrt(square);
    for (size_t c = 0; c < d; c++) y[c] *= length;
}

static void add_noise(stream *r, const lipsc_region *region, double size, double *y) {
    const double each = size / sqrt((double)region->d);
    for (size_t e = 0; e < region->n * region->d; e++)
        y[e] += each * lipsc_rng_normal(r->seed, r->at++);
    lipsc_region_move(region, y, 0.0, y, y);
}

/* Tokens at random, or, as in all the bad cases known, on few points: one, two or three
 * tokens alone, the others on one point or two, a little apart. */
static void random_input(stream *r, const lipsc_region *region, int clusters, double *y) {
    const size_t n = region->n, d = region->d;
    const size_t alone = 1 + (size_t)(3.0 * uniform(r)), bulks = 1 + (uniform(r) < 0.5);
    for (size_t i = 0; i < n; i++) {
        double *token = y + i * d;
        if (!clusters || i < alone + bulks)
            random_token(r, d, token);
        else
            memcpy(token, token - bulks * d, d * sizeof *token);
    }
    const double span = clusters ? 6.0 : 40.0; /* of the log masses */
    for (size_t e = n * d; e < region->size; e++) y[e] = -span * uniform(r);
    add_noise(r, region, clusters ? 0.01 : 0.0, y);
}

/* ---- Together ----------------------------------------------------------------------- */

lipsc_status lipsc_starts_find(lipsc_search *s, size_t count, lipsc_climb *climbs) {
    const double noise = 0.02;
    const lipsc_region *r = &s->region;
    const size_t built = (count + 1) / 2;
    s->doing = "constructions";
    lipsc_status status = build(s, built, climbs);
    size_t used = 0, noisy = 0, random = 0;
    while (used < built && climbs[used].spot.sigma > 0.0) used++;
    const size_t constructions = used;
    lipsc_spot **others = lipsc_alloc(count - used + 1, sizeof(lipsc_spot *));
    if (!status && !others) status = LIPSC_E_NOMEM;
    s->doing = "starts";
    for (; !status && used < count; used++) {
        lipsc_spot *spot = &climbs[used].spot;
        stream noise_of = {.seed = s->set->seed + 1000003u * (uint64_t)(used + 1)};
        if (used == constructions && s->set->data) {
            snprintf(spot->start, sizeof spot->start, "data");
            lipsc_region_enter(r, s->set->data, NULL, spot->y);
        } else if (noisy < constructions && noisy <= random) {
            lipsc_spot_copy(s, &climbs[noisy++].spot, spot);
            const size_t length = strlen(spot->start);
            snprintf(spot->start + length, sizeof spot->start - length, ", noise");
            add_noise(&noise_of, r, noise, spot->y);
        } else {
            snprintf(spot->start, sizeof spot->start, "random %zu", ++random);
            random_input(&noise_of, r, random % 2, spot->y);
        }
        others[used - constructions] = spot;
    }
    if (!status) status = judge_all(s, used - constructions, others);
    lipsc_release(others);
    return status;
}
