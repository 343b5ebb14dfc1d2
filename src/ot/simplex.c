/* simplex.c - network simplex for a transportation problem on a growing list of arcs.
 *
 * A basis is a spanning tree of sources, targets and an artificial root; all other arcs
 * carry nothing.  With potentials pi that make c_ij + pi_i - pi_j zero on the tree, an arc
 * of negative reduced cost enters, flow turns around the cycle it closes, and the arc that
 * runs empty leaves.  Flows are whole numbers, so ties are exact, and the rule of
 * Cunningham (every empty tree arc points to the root; of several arcs that run empty the
 * last one leaves, counted from the top of the cycle along the flow) excludes cycling. */
#include "ot/simplex.h"

#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

/* The place of a node in the tree: kept apart, for walks over subtrees need no more. */
typedef struct {
    int32_t parent, child, next, previous; /* first child; siblings, both ways */
} link;

/* A node with the arc to its parent. */
typedef struct {
    int32_t size; /* nodes of its subtree, itself included */
    int32_t up;   /* the arc points to the parent          */
    int64_t flow;
    double cost;
} node;

struct lipsc_simplex {
    size_t n, m;
    int32_t root;
    link *links;   /* sources, targets, root */
    node *nodes;   /* the same               */
    double *pi;    /* one per node           */
    int64_t *rest; /* supply and demand not yet served, while the first tree is made */
    lipsc_ot_arc *arcs;
    size_t count, room, cursor;
    long pivots;
};

lipsc_status lipsc_simplex_new(size_t n, size_t m, const int64_t *supply,
                               const int64_t *demand, lipsc_simplex **out) {
    if (n >= INT32_MAX / 2 || m >= INT32_MAX / 2) return LIPSC_E_RANGE;
    lipsc_simplex *s = lipsc_alloc_zero(1, sizeof *s);
    if (!s) return LIPSC_E_NOMEM;
    s->n = n;
    s->m = m;
    s->root = (int32_t)(n + m);
    s->links = lipsc_alloc(n + m + 1, sizeof *s->links);
    s->nodes = lipsc_alloc(n + m + 1, sizeof *s->nodes);
    s->pi = lipsc_alloc(n + m + 1, sizeof *s->pi);
    s->rest = lipsc_alloc(n + m, sizeof *s->rest);
    if (!s->links || !s->nodes || !s->pi || !s->rest) {
        lipsc_simplex_free(s);
        return LIPSC_E_NOMEM;
    }
    memcpy(s->rest, supply, n * sizeof *supply);
    memcpy(s->rest + n, demand, m * sizeof *demand);
    *out = s;
    return LIPSC_OK;
}

void lipsc_simplex_free(lipsc_simplex *s) {
    if (!s) return;
    lipsc_release(s->links);
    lipsc_release(s->nodes);
    lipsc_release(s->pi);
    lipsc_release(s->rest);
    lipsc_release(s->arcs);
    lipsc_release(s);
}

lipsc_status lipsc_simplex_add(lipsc_simplex *s, size_t from, size_t to, double cost) {
    if (s->count == s->room) {
        const size_t room = s->room ? s->room + s->room / 2 : 4096;
        lipsc_ot_arc *arcs = lipsc_alloc(room, sizeof *arcs);
        if (!arcs) return LIPSC_E_NOMEM;
        if (s->count) memcpy(arcs, s->arcs, s->count * sizeof *arcs);
        lipsc_release(s->arcs);
        s->arcs = arcs;
        s->room = room;
    }
    s->arcs[s->count++] = (lipsc_ot_arc){(uint32_t)from, (uint32_t)to, cost};
    return LIPSC_OK;
}

size_t lipsc_simplex_arcs(const lipsc_simplex *s) { return s->count; }
long lipsc_simplex_pivots(const lipsc_simplex *s) { return s->pivots; }

/* ---- The tree ---- */

static void attach(lipsc_simplex *s, int32_t v, int32_t parent) {
    link *links = s->links;
    const int32_t first = links[parent].child;
    links[v].parent = parent;
    links[v].next = first;
    links[v].previous = NONE;
    if (first != NONE) links[first].previous = v;
    links[parent].child = v;
}

static void detach(lipsc_simplex *s, int32_t v) {
    link *links = s->links;
    const link *at = &links[v];
    if (at->previous != NONE)
        links[at->previous].next = at->next;
    else
        links[at->parent].child = at->next;
    if (at->next != NONE) links[at->next].previous = at->previous;
}

/* The node behind v in a walk through the subtree of top that leaves out the subtree of
 * skip; top when the walk is over. */
static inline int32_t walk(const link *links, int32_t v, int32_t top, int32_t skip) {
    int32_t to = links[v].child;
    for (;;) {
        if (to == skip && to != NONE) to = links[to].next;
        if (to != NONE) return to;
        if (v == top) return top;
        to = links[v].next;
        v = links[v].parent;
    }
}

static double potential_from_parent(const lipsc_simplex *s, int32_t v) {
    const node *at = &s->nodes[v];
    return s->pi[s->links[v].parent] + (at->up ? -at->cost : at->cost);
}

/* From the root down, without the rounding that shifts have left behind. */
static void renew_potentials(lipsc_simplex *s) {
    s->pi[s->root] = 0.0;
    for (int32_t v = walk(s->links, s->root, s->root, NONE); v != s->root;
         v = walk(s->links, v, s->root, NONE))
        s->pi[v] = potential_from_parent(s, v);
}

/* ---- The first tree ---- */

typedef struct {
    float key;
    uint32_t arc;
} ranked;

static int by_key(const void *a, const void *b) {
    const ranked *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return left->arc < right->arc ? -1 : left->arc > right->arc;
}

/* A filled arc in the lists of its two ends. */
typedef struct {
    int32_t other, next;
    int64_t flow;
    double cost;
} half_arc;

/* The cost of arcs to and from the root: what passes it has to reach a target. */
typedef struct {
    const double *f, *g;
    double penalty;
} artificial;

/* Every filled arc exhausts one of its ends, so the filled arcs are a forest, and a tree of
 * it has at most one node that is not exhausted: that one, or any, hangs on the root. */
static void fill(lipsc_simplex *s, const ranked *order, half_arc *halves, int32_t *head) {
    size_t used = 0;
    for (size_t k = 0; k < s->count; k++) {
        const lipsc_ot_arc *arc = &s->arcs[order[k].arc];
        const size_t u = arc->from, v = s->n + arc->to;
        const int64_t flow = s->rest[u] < s->rest[v] ? s->rest[u] : s->rest[v];
        if (flow == 0) continue;
        s->rest[u] -= flow;
        s->rest[v] -= flow;
        halves[used] = (half_arc){(int32_t)v, head[u], flow, arc->cost};
        head[u] = (int32_t)used++;
        halves[used] = (half_arc){(int32_t)u, head[v], flow, arc->cost};
        head[v] = (int32_t)used++;
    }
}

/* Hangs v on the root, then all that filled arcs connect with it, breadth first. */
static size_t hang(lipsc_simplex *s, int32_t v, const artificial *root,
                   const half_arc *halves, const int32_t *head, int32_t *queue,
                   size_t end) {
    size_t begin = end;
    const int64_t rest = s->rest[v];
    const size_t target = (size_t)v - s->n;
    node *at = &s->nodes[v];
    attach(s, v, s->root);
    at->flow = rest;
    at->up = (size_t)v < s->n || rest == 0;
    at->cost = (size_t)v < s->n ? root->f[v]
               : at->up         ? -root->g[target]
                                : root->g[target] + root->penalty;
    queue[end++] = v;
    while (begin < end) {
        const int32_t u = queue[begin++];
        for (int32_t h = head[u]; h != NONE; h = halves[h].next) {
            const int32_t w = halves[h].other;
            if (s->links[w].parent != NONE) continue;
            attach(s, w, u);
            s->nodes[w].flow = halves[h].flow;
            s->nodes[w].cost = halves[h].cost;
            s->nodes[w].up = (size_t)w < s->n;
            queue[end++] = w;
        }
    }
    return end;
}

static void build_tree(lipsc_simplex *s, const artificial *root, const half_arc *halves,
                       const int32_t *head, int32_t *queue) {
    const int32_t total = s->root;
    for (int32_t v = 0; v <= total; v++) {
        s->links[v] = (link){NONE, NONE, NONE, NONE};
        s->nodes[v] = (node){.size = 1};
    }
    s->links[s->root].parent = s->root; /* not NONE: it is in the tree */
    size_t end = 0;
    for (int pass = 0; pass < 2; pass++) /* nodes with a rest come first */
        for (int32_t v = 0; v < total; v++)
            if (s->links[v].parent == NONE && (pass || s->rest[v] > 0))
                end = hang(s, v, root, halves, head, queue, end);
    s->links[s->root].parent = NONE;
    for (size_t k = end; k-- > 0;)
        s->nodes[s->links[queue[k]].parent].size += s->nodes[queue[k]].size;
    renew_potentials(s);
}

lipsc_status lipsc_simplex_begin(lipsc_simplex *s, const float *key, const double *f,
                                 const double *g, double penalty) {
    const artificial root = {f, g, penalty};
    const size_t total = s->n + s->m;
    ranked *order = lipsc_alloc(s->count, sizeof *order);
    half_arc *halves = lipsc_alloc(2 * total, sizeof *halves);
    int32_t *head = lipsc_alloc(total, sizeof *head);
    int32_t *queue = lipsc_alloc(total, sizeof *queue);
    lipsc_status status = LIPSC_E_NOMEM;
    if (order && halves && head && queue) {
        for (size_t k = 0; k < s->count; k++) order[k] = (ranked){key[k], (uint32_t)k};
        qsort(order, s->count, sizeof *order, by_key);
        for (size_t v = 0; v < total; v++) head[v] = NONE;
        fill(s, order, halves, head);
        build_tree(s, &root, halves, head, queue);
        status = LIPSC_OK;
    }
    lipsc_release(order);
    lipsc_release(halves);
    lipsc_release(head);
    lipsc_release(queue);
    return status;
}

void lipsc_simplex_raise(lipsc_simplex *s, double by) {
    for (int32_t v = s->links[s->root].child; v != NONE; v = s->links[v].next)
        if (!s->nodes[v].up) s->nodes[v].cost += by;
    renew_potentials(s);
}

/* ---- Pivots ---- */

/* Block search: the most negative reduced cost among the next arcs, block by block, until
 * a block has one.  Returns the arc, or count when none is below -tolerance. */
static size_t price(lipsc_simplex *s, double tolerance, double *reduced) {
    const double *from_pi = s->pi, *to_pi = s->pi + s->n;
    const lipsc_ot_arc *arcs = s->arcs;
    size_t block = 64;
    while (block * block < s->count) block += block / 4;
    size_t best = s->count, at = s->cursor;
    double least = -tolerance;
    for (size_t seen = 0; seen < s->count;) {
        if (at >= s->count) at = 0;
        size_t end = at + block < s->count ? at + block : s->count;
        seen += end - at;
        for (; at < end; at++) {
            const double r = arcs[at].cost + from_pi[arcs[at].from] - to_pi[arcs[at].to];
            if (r < least) {
                least = r;
                best = at;
            }
        }
        if (best < s->count) break;
    }
    s->cursor = at;
    *reduced = least;
    return best;
}

/* Where the cycle of the entering arc source -> target turns, and what leaves. */
typedef struct {
    int32_t top;   /* where the two paths to the root meet           */
    int32_t leave; /* the arc from this node to its parent leaves    */
    int at_target; /* ... which lies on the path of the target       */
    int64_t flow;
} cycle;

/* Flow runs from the top down to the source, over the entering arc, and from the target up
 * to the top: arcs against it lose flow.  Climbing from the source the first of equal ones
 * is the last along the flow; climbing from the target it is the last one met. */
static cycle find_cycle(const lipsc_simplex *s, int32_t source, int32_t target) {
    const node *nodes = s->nodes;
    const link *links = s->links;
    int32_t u = source, v = target, leave_u = NONE, leave_v = NONE;
    int64_t least_u = INT64_MAX, least_v = INT64_MAX;
    while (u != v) {
        if (nodes[u].size <= nodes[v].size) { /* then u is not above v */
            if (nodes[u].up && nodes[u].flow < least_u) {
                least_u = nodes[u].flow;
                leave_u = u;
            }
            u = links[u].parent;
        } else {
            if (!nodes[v].up && nodes[v].flow <= least_v) {
                least_v = nodes[v].flow;
                leave_v = v;
            }
            v = links[v].parent;
        }
    }
    const int at_target = leave_v != NONE && least_v <= least_u;
    return (cycle){u, at_target ? leave_v : leave_u, at_target,
                   at_target ? least_v : least_u};
}

static void turn_flow(lipsc_simplex *s, int32_t source, int32_t target, const cycle *c) {
    if (c->flow == 0) return;
    for (int32_t u = source; u != c->top; u = s->links[u].parent)
        s->nodes[u].flow += s->nodes[u].up ? -c->flow : c->flow;
    for (int32_t v = target; v != c->top; v = s->links[v].parent)
        s->nodes[v].flow += s->nodes[v].up ? c->flow : -c->flow;
}

/* Cuts the subtree of c->leave off and hangs it by `inner` on `outer`: along the path from
 * inner to the cut every arc changes its child end. */
static void exchange(lipsc_simplex *s, const cycle *c, int32_t inner, int32_t outer,
                     int inner_is_source, double cost) {
    node *nodes = s->nodes;
    const link *links = s->links;
    const int32_t moved = nodes[c->leave].size;
    for (int32_t u = links[c->leave].parent; u != c->top; u = links[u].parent)
        nodes[u].size -= moved;
    for (int32_t u = outer; u != c->top; u = links[u].parent) nodes[u].size += moved;

    int32_t v = inner, parent = outer, up = inner_is_source, below = 0;
    int64_t flow = c->flow;
    for (;;) {
        const node old = nodes[v];
        const int32_t above = links[v].parent;
        detach(s, v);
        attach(s, v, parent);
        nodes[v].up = up;
        nodes[v].flow = flow;
        nodes[v].cost = cost;
        nodes[v].size = moved - below;
        if (v == c->leave) break;
        parent = v;
        up = !old.up;
        flow = old.flow;
        cost = old.cost;
        below = old.size;
        v = above;
    }
}

/* The smaller of the two sides that the entering arc joins moves by the reduced cost. */
static void shift_potentials(lipsc_simplex *s, int32_t inner, double shift) {
    const link *links = s->links;
    double *pi = s->pi;
    if (2 * s->nodes[inner].size <= s->root) {
        pi[inner] += shift;
        for (int32_t v = walk(links, inner, inner, NONE); v != inner;
             v = walk(links, v, inner, NONE))
            pi[v] += shift;
    } else {
        pi[s->root] -= shift;
        for (int32_t v = walk(links, s->root, s->root, inner); v != s->root;
             v = walk(links, v, s->root, inner))
            pi[v] -= shift;
    }
}

lipsc_status lipsc_simplex_run(lipsc_simplex *s, double tolerance, long most) {
    lipsc_status status = LIPSC_OK;
    long until_renewal = (long)s->root;
    double reduced;
    for (;;) {
        const size_t k = price(s, tolerance, &reduced);
        if (k == s->count) break;
        if (most-- == 0) {
            status = LIPSC_E_NOCONV;
            break;
        }
        s->pivots++;
        const int32_t source = (int32_t)s->arcs[k].from;
        const int32_t target = (int32_t)(s->n + s->arcs[k].to);
        const cycle c = find_cycle(s, source, target);
        if (c.leave == NONE) return LIPSC_E_NOCONV; /* costs are not negative: impossible */
        turn_flow(s, source, target, &c);
        const int32_t inner = c.at_target ? target : source;
        exchange(s, &c, inner, c.at_target ? source : target, !c.at_target,
                 s->arcs[k].cost);
        shift_potentials(s, inner, c.at_target ? reduced : -reduced);
        if (--until_renewal == 0) {
            renew_potentials(s);
            until_renewal = (long)s->root;
        }
    }
    renew_potentials(s);
    return status;
}

/* ---- What it found ---- */

void lipsc_simplex_potentials(const lipsc_simplex *s, double *f, double *g) {
    for (size_t i = 0; i < s->n; i++) f[i] = -s->pi[i];
    for (size_t j = 0; j < s->m; j++) g[j] = s->pi[s->n + j];
}

int lipsc_simplex_flow(const lipsc_simplex *s, size_t v, lipsc_ot_arc *arc, int64_t *flow) {
    const node *at = &s->nodes[v];
    const size_t parent = (size_t)s->links[v].parent;
    if (parent == (size_t)s->root) return 0;
    *arc = v < s->n ? (lipsc_ot_arc){(uint32_t)v, (uint32_t)(parent - s->n), at->cost}
                    : (lipsc_ot_arc){(uint32_t)parent, (uint32_t)(v - s->n), at->cost};
    *flow = at->flow;
    return 1;
}

int64_t lipsc_simplex_left_over(const lipsc_simplex *s) {
    int64_t sum = 0;
    for (int32_t v = s->links[s->root].child; v != NONE; v = s->links[v].next)
        if (!s->nodes[v].up) sum += s->nodes[v].flow;
    return sum;
}
