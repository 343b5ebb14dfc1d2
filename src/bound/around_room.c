/* around_room.c - the memory of one row of one thread (around.h). */
#include <string.h>

#include "bound/around.h"
#include "core/mem.h"

typedef struct {
    double **array;
    size_t rows, cols;
} room;

enum { ROOMS = 34 };

/* Every array of a row, with n + 1 keys, of a head with these widths. */
static void rooms_of(lipsc_around_row *row, size_t n, size_t k, size_t dv, size_t bent,
                     room *rooms) {
    const size_t m = k > dv ? k : dv;
    const room all[ROOMS] = {
        {&row->log_p, n, 1},      {&row->p, n, 1},        {&row->query, n, 1},
        {&row->move, n, 1},       {&row->hi, n, 1},       {&row->eps, n, 1},
        {&row->y, n, dv},         {&row->y_length, n, 1}, {&row->g, n, k},
        {&row->g_length, n, 1},   {&row->b, n, k},        {&row->b_length, n, 1},
        {&row->b_beside, n, 1},   {&row->b_bend, n, 1},   {&row->b_blur, n, 1},
        {&row->w, n, k},          {&row->w_length, n, 1}, {&row->w_beside, n, 1},
        {&row->w_bend, n, 1},     {&row->w_blur, n, 1},   {&row->slope, n, 1},
        {&row->slope_move, n, 1}, {&row->full_b, n, 1},   {&row->full_w, n, 1},
        {&row->bent, n, bent},    {&row->pack_a, n, m},   {&row->pack_b, n, m},
        {&row->mean, 1, m},       {&row->zero, 1, m},     {&row->gram, m, m},
        {&row->half, m, m},       {&row->room, m, m},     {&row->sum, m, m},
        {&row->cross, m, m}};
    memcpy(rooms, all, sizeof all);
}

lipsc_status lipsc_around_row_new(const lipsc_head_at *head, lipsc_around_row *row) {
    room rooms[ROOMS];
    int failed = 0;
    memset(row, 0, sizeof *row);
    rooms_of(row, head->n + 1, head->k, head->dv, head->cap > 0.0 ? head->k : 1, rooms);
    for (size_t a = 0; a < ROOMS; a++) {
        size_t count;
        if (lipsc_mul_size(rooms[a].rows, rooms[a].cols, &count))
            *rooms[a].array = lipsc_alloc_zero(count, sizeof(double));
        failed |= !*rooms[a].array;
    }
    return failed ? LIPSC_E_NOMEM : LIPSC_OK;
}

void lipsc_around_row_free(lipsc_around_row *row) {
    room rooms[ROOMS];
    rooms_of(row, 0, 0, 0, 0, rooms);
    for (size_t a = 0; a < ROOMS; a++) lipsc_release(*rooms[a].array);
}
