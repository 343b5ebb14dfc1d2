/* row.c - the list of a row's fields, and rows in their order. */
#include "row/row.h"

#include <stdlib.h>

typedef lipsc_row record;
static const lipsc_field fields[] = {LIPSC_ROW_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_row_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

/* LIPSC_NONE is the largest size_t: one more is 0. */
int lipsc_place_order(size_t a, size_t b) { return a + 1 < b + 1 ? -1 : a + 1 > b + 1; }

static int by_place(const void *a, const void *b) {
    const lipsc_row *x = *(const lipsc_row *const *)a, *y = *(const lipsc_row *const *)b;
    int o = lipsc_place_order(x->layer, y->layer);
    if (!o) o = lipsc_place_order(x->head, y->head);
    if (!o) o = lipsc_place_order(x->n, y->n);
    return o ? o : lipsc_place_order(x->window, y->window);
}

void lipsc_rows_sort(size_t count, const lipsc_row **rows) {
    if (count) qsort(rows, count, sizeof *rows, by_place);
}

lipsc_status lipsc_row_read(const json_t *object, lipsc_pool *pool, lipsc_row *row,
                            lipsc_error *err) {
    const lipsc_status status =
        lipsc_fields_read(lipsc_row_fields(), object, pool, row, &row->parts, err);
    if (!status && row->start == LIPSC_NONE && row->n != LIPSC_NONE)
        row->start = row->window == LIPSC_NONE ? 0 : row->window * row->n;
    return status;
}

json_t *lipsc_row_json(const lipsc_row *row) {
    return lipsc_fields_json(lipsc_row_fields(), row, row->parts);
}
