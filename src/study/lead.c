/* lead.c - rank 0 of a study that several share: hands cells out, and takes rows.
 *
 * Cells are handed out by falling cost, in portions that shrink with what is left: half of
 * what would be a rank's fair part of it.  The first are large, so that a rank reads
 * weights seldom and short windows of one length come together; the last are small, so that
 * all ranks end at about the same time.  Windows stay whole, because their cells share a
 * forward pass, unless one is more than a portion; and where shorter ones share that of the
 * longest that begins where they do, they go with it as far as the portion reaches.
 *
 * Rank 0 computes like the others; a thread of its own, which mostly sleeps, answers. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "study/needs.h"
#include "study/team.h"

/* The last portions are this part of a rank's work, as little as a sweep is unequal. */
static const double smallest = 1.0 / 64.0;
/* Tokens of a portion, at least, where weights do not stay ready from one to the next. */
static const double tokens_worth_reading = 1024.0;

typedef struct {
    study_part part; /* open cells of one window, which stand together */
    double cost;     /* of a cell */
    size_t n;
    size_t shorter; /* the next that shares its forward pass, or LIPSC_NONE */
} stretch;

typedef struct {
    lipsc_study *study;
    study_sweep *sweep;
    pthread_mutex_t turn; /* at what is to be handed out: */
    stretch *stretches;
    size_t count, next;
    double left, total; /* cost */
    double least;       /* of a portion */
    size_t ranks;
} lead;

/* ---- What is handed out ---------------------------------------------------------------
 */

static int by_cost(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return (x->part.first > y->part.first) - (x->part.first < y->part.first);
}

/* Who shares the forward pass of whom: those that begin alike follow each other. */
static void link_beginnings(lead *l) {
    const lipsc_study *study = l->study;
    size_t windows = 0;
    for (size_t i = 0; i < study->cell_count; i++)
        if (study->cells[i].window >= windows) windows = study->cells[i].window + 1;
    size_t *last = lipsc_alloc(windows, sizeof *last);
    for (size_t w = 0; last && w < windows; w++) last[w] = LIPSC_NONE;
    for (size_t i = 0; last && i < l->count; i++) {
        const study_cell *cell = &study->cells[l->stretches[i].part.first];
        const size_t before = last[cell->window];
        last[cell->window] = i;
        if (before == LIPSC_NONE) continue;
        if (study->cells[l->stretches[before].part.first].start == cell->start)
            l->stretches[before].shorter = i;
    }
    lipsc_release(last); /* without it each makes its own */
}

static void find_stretches(lead *l) {
    const lipsc_study *study = l->study;
    const study_cell *before = NULL;
    for (size_t i = 0; i < study->cell_count; i++) {
        study_cell *cell = &study->cells[i];
        if (lipsc_cell_done(cell)) {
            before = NULL;
            continue;
        }
        cell->elsewhere = 1;
        if (!before || before->n != cell->n || before->window != cell->window)
            l->stretches[l->count++] = (stretch){
                .part.first = i, .cost = cell->cost, .n = cell->n, .shorter = LIPSC_NONE};
        l->stretches[l->count - 1].part.count++;
        l->total += cell->cost;
        before = cell;
    }
    l->left = l->total;
    if (l->count) qsort(l->stretches, l->count, sizeof *l->stretches, by_cost);
    if (lipsc_study_beginnings(study)) link_beginnings(l);
}

/* What a portion shall cost at least. */
static double least_portion(const lead *l) {
    const lipsc_study *study = l->study;
    const study_kind kind = {.model = study->model,
                             .map = study->set.map,
                             .dtype = study->set.dtype,
                             .threads = study->threads};
    const double fair = l->total / (double)l->ranks;
    double tokens = 0.0, cost = 0.0;
    if (lipsc_study_layers_ready(&kind) >= study->info->layers) return smallest * fair;
    for (size_t i = 0; i < l->count && tokens < tokens_worth_reading; i++) {
        tokens += (double)l->stretches[i].n;
        cost += (double)l->stretches[i].part.count * l->stretches[i].cost;
    }
    return cost < 0.25 * fair ? cost : 0.25 * fair;
}

/* So many cells of it, for somebody; what they cost. */
static double hand_out(lead *l, stretch *from, size_t cells, study_part *part) {
    const double cost = (double)cells * from->cost;
    *part = (study_part){from->part.first, cells};
    from->part.first += cells;
    from->part.count -= cells;
    l->left -= cost;
    return cost;
}

/* The next portion, NULL when nothing is left; lipsc_release it. */
static study_part *portion(lead *l, size_t *count) {
    const double half = 0.5 * l->left / (double)l->ranks;
    double wanted = half > l->least ? half : l->least;
    study_part *parts = lipsc_alloc(l->count - l->next + 1, sizeof *parts);
    *count = 0;
    for (; parts && l->next < l->count && (wanted > 0.0 || !*count); l->next++) {
        size_t at = l->next;
        stretch *from = &l->stretches[at];
        const double whole = (double)from->part.count * from->cost;
        if (whole > 1.5 * wanted && whole > l->least) {
            if (*count) break; /* for the next who asks */
            const size_t cells = (size_t)(wanted / from->cost) + 1;
            if (cells < from->part.count) {
                hand_out(l, from, cells, &parts[(*count)++]);
                break;
            }
        }
        for (; at != LIPSC_NONE && (at == l->next || wanted > 0.0);
             at = l->stretches[at].shorter) {
            from = &l->stretches[at];
            if (from->part.count)
                wanted -= hand_out(l, from, from->part.count, &parts[(*count)++]);
        }
    }
    return parts;
}

static study_part *next_portion(lead *l, size_t *count) {
    pthread_mutex_lock(&l->turn);
    study_part *parts = portion(l, count);
    pthread_mutex_unlock(&l->turn);
    if (parts && *count) return parts;
    lipsc_release(parts);
    return NULL;
}

/* ---- The thread that answers ----------------------------------------------------------
 */

static void fail(void *ctx, lipsc_status status, const char *why) {
    lead *l = ctx;
    lipsc_error err;
    if (l->sweep) lipsc_sweep_fail(l->sweep, lipsc_fail(&err, status, "%s", why), &err);
}

/* A study that has no sweep only waits for the end. */
static int over(void *ctx) {
    const lead *l = ctx;
    return !l->sweep || lipsc_sweep_ended(l->sweep);
}

static void *next_work(void *ctx, size_t *bytes) {
    size_t count = 0;
    study_part *parts = next_portion(ctx, &count);
    *bytes = count * sizeof *parts;
    return parts;
}

static void take_row(lead *l, const lipsc_message *word) {
    lipsc_study *study = l->study;
    lipsc_error err;
    study_sent head;
    if (word->bytes >= sizeof head) {
        memcpy(&head, word->at, sizeof head);
        if (head.cell < study->cell_count && study->cells[head.cell].elsewhere &&
            !lipsc_cell_done(&study->cells[head.cell])) {
            study->cells[head.cell].passing = head.passing != 0;
            lipsc_sweep_take(l->sweep, &study->cells[head.cell], word->at + sizeof head);
            return;
        }
    }
    lipsc_sweep_fail(l->sweep,
                     lipsc_fail(&err, LIPSC_E_FORMAT,
                                "rank %zu has sent a row that nobody asked for",
                                word->from),
                     &err);
}

static void take_failure(lead *l, const lipsc_message *word) {
    study_failure why = {.status = LIPSC_E_FORMAT};
    lipsc_error err;
    if (word->bytes == sizeof why) memcpy(&why, word->at, sizeof why);
    why.text[sizeof why.text - 1] = 0;
    const lipsc_status status = (lipsc_status)why.status;
    lipsc_fail(&err, status, "rank %zu: %s", word->from, why.text);
    lipsc_sweep_fail(l->sweep, status, &err);
}

static void take_times(lead *l, const lipsc_message *word) {
    lipsc_study_times times, *sum = &l->study->times;
    if (word->bytes != sizeof times) return;
    memcpy(&times, word->at, sizeof times);
    sum->forward += times.forward;
    sum->prepare += times.prepare;
    sum->solve += times.solve;
    sum->extras += times.extras;
    sum->products += times.products;
}

static void hear(void *ctx, const lipsc_message *word) {
    lead *l = ctx;
    if (word->tag == LIPSC_DEAL_BYE) take_times(l, word);
    if (!l->sweep) return;
    if (word->tag == TEAM_ROW) take_row(l, word);
    if (word->tag == TEAM_FAIL) take_failure(l, word);
    if (word->tag == TEAM_REMARK) lipsc_study_remark(l->study, "%s", word->at);
}

/* ---- Together -------------------------------------------------------------------------
 */

static void work(void *ctx) {
    lead *l = ctx;
    size_t count;
    study_part *parts;
    while (!lipsc_sweep_ended(l->sweep) && (parts = next_portion(l, &count))) {
        for (size_t p = 0; p < count; p++)
            for (size_t i = 0; i < parts[p].count; i++)
                l->study->cells[parts[p].first + i].elsewhere = 0;
        lipsc_release(parts);
        lipsc_sweep_run(l->sweep);
    }
}

static lipsc_status outcome(void *ctx) {
    const lead *l = ctx;
    return l->sweep ? lipsc_sweep_outcome(l->sweep) : LIPSC_E_STOPPED;
}

static void deal_out(lead *l, void (*own)(void *ctx)) {
    study_team *team = l->study->team;
    const lipsc_dealer dealer = {.ranks = team->ranks,
                                 .over = over,
                                 .next = next_work,
                                 .hear = hear,
                                 .fail = fail,
                                 .work = own,
                                 .outcome = outcome,
                                 .ctx = l};
    if (!lipsc_deal_out(&dealer)) return;
    team->over = 1;
    lipsc_ranks_busy(team->ranks, 0);
}

void lipsc_team_lead(lipsc_study *study, study_sweep *s) {
    lead l = {.study = study,
              .sweep = s,
              .ranks = lipsc_ranks_count(study->team->ranks),
              .stretches = lipsc_alloc(study->cell_count, sizeof(stretch))};
    lipsc_error err;
    pthread_mutex_init(&l.turn, NULL);
    if (l.stretches) {
        find_stretches(&l);
        l.least = least_portion(&l);
        deal_out(&l, work);
    } else {
        lipsc_sweep_fail(s, lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for ranks"),
                         &err);
    }
    pthread_mutex_destroy(&l.turn);
    lipsc_release(l.stretches);
}

void lipsc_team_dismiss(lipsc_study *study) {
    lead l = {.study = study, .ranks = lipsc_ranks_count(study->team->ranks)};
    deal_out(&l, NULL);
}
