/* split.c - which rows of an input are whose, and how they travel. */
#include "backend/ranks/split.h"

#include <limits.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"

/* Where block b of `blocks` begins. */
static size_t edge(size_t n, size_t blocks, size_t b) {
    return n / blocks * b + (n % blocks * b) / blocks;
}

void lipsc_split_own(size_t n, size_t ranks, size_t r, size_t own[4]) {
    own[0] = edge(n, 2 * ranks, r);
    own[1] = edge(n, 2 * ranks, r + 1);
    own[2] = edge(n, 2 * ranks, 2 * ranks - 1 - r);
    own[3] = edge(n, 2 * ranks, 2 * ranks - r);
}

static size_t count_own(const size_t own[4]) { return own[1] - own[0] + own[3] - own[2]; }

lipsc_status lipsc_split_begin(lipsc_row_split *split, size_t n, const size_t *order) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    lipsc_split_own(n, ranks, lipsc_ranks_number(split->ranks), split->own);
    split->rows = (lipsc_split){n, count_own(split->own), ranks};
    split->place = lipsc_alloc(split->rows.own, sizeof *split->place);
    split->bytes = lipsc_alloc(2 * ranks, sizeof *split->bytes);
    if (!split->place || !split->bytes) return LIPSC_E_NOMEM;
    size_t at = 0;
    for (int part = 0; part < 4; part += 2)
        for (size_t i = split->own[part]; i < split->own[part + 1]; i++)
            split->place[at++] = order ? order[i] : i;
    return LIPSC_OK;
}

void lipsc_split_end(lipsc_row_split *split) {
    lipsc_release(split->place);
    lipsc_release(split->bytes);
    lipsc_release(split->room);
    *split = (lipsc_row_split){.ranks = split->ranks};
}

/* Copies rows of rank r between their places in all and one after the other. */
static void copy_rows(const size_t own[4], size_t row, const char *from, char *to,
                      int spread) {
    for (int part = 0; part < 4; part += 2) {
        const size_t bytes = (own[part + 1] - own[part]) * row, at = own[part] * row;
        if (spread)
            memcpy(to + at, from, bytes);
        else
            memcpy(to, from + at, bytes);
        *(spread ? &from : (const char **)(void *)&to) += bytes;
    }
}

static lipsc_status reserve(lipsc_row_split *split, size_t bytes) {
    if (bytes <= split->room_bytes) return LIPSC_OK;
    lipsc_release(split->room);
    split->room = lipsc_alloc(bytes, 1);
    split->room_bytes = split->room ? bytes : 0;
    return split->room ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* MPI counts in int: no vector of a head is that long. */
static int fits(const lipsc_row_split *split, size_t row) {
    return split->rows.rows <= INT_MAX / (row ? row : 1);
}

lipsc_status lipsc_split_gather(lipsc_row_split *split, size_t row, const void *own,
                                void *all) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    size_t theirs[4];
    if (!fits(split, row)) return LIPSC_E_RANGE;
    for (size_t r = 0; r < ranks; r++) {
        lipsc_split_own(n, ranks, r, theirs);
        split->bytes[r] = (int)(count_own(theirs) * row);
    }
    lipsc_status status = reserve(split, n * row);
    if (!status)
        status = lipsc_ranks_gather_parts(split->ranks, split->bytes, own, split->room);
    const char *from = split->room;
    for (size_t r = 0; r < ranks && !status; r++) {
        lipsc_split_own(n, ranks, r, theirs);
        copy_rows(theirs, row, from, all, 1);
        from += split->bytes[r];
    }
    return status;
}

size_t lipsc_split_most_of_cut(const lipsc_row_split *split, size_t cuts) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    const size_t most = split->rows.rows / ranks + 2; /* of a rank */
    return ranks * (most / cuts + 1);
}

lipsc_status lipsc_split_gather_cut(lipsc_row_split *split, size_t cut, size_t cuts,
                                    size_t row, const void *own, void *all, size_t *rows) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    const size_t first = edge(split->rows.own, cuts, cut);
    *rows = 0;
    if (!fits(split, row)) return LIPSC_E_RANGE;
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs[4];
        lipsc_split_own(n, ranks, r, theirs);
        const size_t count = count_own(theirs);
        const size_t some = edge(count, cuts, cut + 1) - edge(count, cuts, cut);
        split->bytes[r] = (int)(some * row);
        *rows += some;
    }
    return lipsc_ranks_gather_parts(split->ranks, split->bytes,
                                    (const char *)own + first * row, all);
}

static void add(size_t bytes, size_t item, const char *part, char *sum) {
    if (item == sizeof(float))
        for (size_t e = 0; e < bytes / item; e++)
            ((float *)(void *)sum)[e] += ((const float *)(const void *)part)[e];
    else
        for (size_t e = 0; e < bytes / item; e++)
            ((double *)(void *)sum)[e] += ((const double *)(const void *)part)[e];
}

lipsc_status lipsc_split_reduce(lipsc_row_split *split, size_t row, size_t item,
                                const void *all, void *own) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    const size_t mine = split->rows.own * row;
    int *out = split->bytes, *in = split->bytes + ranks;
    if (!fits(split, row) || split->rows.own > INT_MAX / ranks / (row ? row : 1))
        return LIPSC_E_RANGE;
    lipsc_status status = reserve(split, n * row + ranks * mine);
    if (status) return status;
    char *to = split->room, *parts = split->room + n * row;
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs[4];
        lipsc_split_own(n, ranks, r, theirs);
        out[r] = (int)(count_own(theirs) * row);
        in[r] = (int)mine;
        copy_rows(theirs, row, all, to, 0);
        to += out[r];
    }
    status = lipsc_ranks_exchange(split->ranks, out, split->room, in, parts);
    if (status) return status;
    memcpy(own, parts, mine);
    for (size_t r = 1; r < ranks; r++) add(mine, item, parts + r * mine, own);
    return LIPSC_OK;
}

lipsc_status lipsc_split_agree(const lipsc_row_split *split, lipsc_status own,
                               lipsc_error *err) {
    lipsc_ranks *ranks = split->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    const int mine = (int)own;
    int *all = lipsc_alloc_zero(count, sizeof *all);
    lipsc_status status =
        all ? lipsc_ranks_gather(ranks, sizeof mine, &mine, all) : LIPSC_E_NOMEM;
    if (status) lipsc_fail(err, status, "the other ranks are out of reach");
    for (size_t r = 0; r < count && !status && !own; r++)
        if (all[r])
            own = lipsc_fail(err, (lipsc_status)all[r], "rank %zu: %s", r,
                             lipsc_strerror((lipsc_status)all[r]));
    lipsc_release(all);
    return status ? status : own;
}
