/* nearest.c - tokens whose embeddings are near: a scan of the table, some rows at a time.
 */
#include "lipscope/perturb.h"

#include <math.h>

#include "core/error.h"
#include "core/mem.h"
#include "model/state.h"

enum { ROWS_AT_ONCE = 256 };

typedef struct {
    size_t room, found;
    uint32_t *ids;
    double *squares; /* ascending */
} best;

static void offer(best *b, uint32_t id, double square) {
    if (!(square > 0)) return; /* the same embedding, or not a number */
    if (b->found == b->room && !(square < b->squares[b->room - 1])) return;
    size_t at = b->found < b->room ? b->found++ : b->room - 1;
    for (; at > 0 && b->squares[at - 1] > square; at--) {
        b->squares[at] = b->squares[at - 1];
        b->ids[at] = b->ids[at - 1];
    }
    b->squares[at] = square;
    b->ids[at] = id;
}

static double square_between(size_t d, const double *a, const double *b) {
    double sum = 0;
    for (size_t c = 0; c < d; c++) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

static lipsc_status scan(lipsc_model *m, const lipsc_tensor *table, size_t id, double *rows,
                         best *b, lipsc_error *err) {
    const size_t d = table->shape[table->ndim - 1], vocab = m->config.vocab;
    double *own = rows + ROWS_AT_ONCE * d;
    lipsc_status status = lipsc_tensors_read(&m->tensors, table, id * d, d, own, err);
    for (size_t first = 0; !status && first < vocab; first += ROWS_AT_ONCE) {
        const size_t count = vocab - first < ROWS_AT_ONCE ? vocab - first : ROWS_AT_ONCE;
        status = lipsc_tensors_read(&m->tensors, table, first * d, count * d, rows, err);
        for (size_t r = 0; !status && r < count; r++)
            if (first + r != id)
                offer(b, (uint32_t)(first + r), square_between(d, rows + r * d, own));
    }
    lipsc_tensors_forget(&m->tensors, table);
    return status;
}

lipsc_status lipsc_model_nearest(lipsc_model *model, uint32_t id, size_t count,
                                 uint32_t *ids, double *distance, size_t *found,
                                 lipsc_error *err) {
    lipsc_tensor table;
    if (!model->info.has_embeddings ||
        !lipsc_tensor_describe(&model->config, LIPSC_TOKENS, 0, &table))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: has no token embeddings", model->shown);
    if (id >= model->config.vocab)
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: id %lu, but the embedding has %zu rows",
                          model->shown, (unsigned long)id, model->config.vocab);
    *found = 0;
    if (!count) return LIPSC_OK;
    best b = {.room = count, .ids = ids, .squares = lipsc_alloc(count, sizeof *b.squares)};
    double *rows =
        lipsc_alloc(ROWS_AT_ONCE + 1, table.shape[table.ndim - 1] * sizeof *rows);
    lipsc_status status =
        b.squares && rows ? scan(model, &table, id, rows, &b, err)
                          : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for embeddings");
    for (size_t i = 0; !status && distance && i < b.found; i++)
        distance[i] = sqrt(b.squares[i]);
    if (!status) *found = b.found;
    lipsc_release(b.squares);
    lipsc_release(rows);
    return status;
}
