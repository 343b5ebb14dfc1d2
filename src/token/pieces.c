/* pieces.c - lists of pieces, and what a split makes of its delimiters. */
#include "token/pieces.h"

#include <stdlib.h>

void lipsc_pieces_put(lipsc_pieces *pieces, lipsc_piece piece) {
    void *data = pieces->data;
    if (!piece.len) return;
    if (pieces->failed ||
        !lipsc_grow(&data, &pieces->room, pieces->count + 1, sizeof *pieces->data)) {
        pieces->failed = 1;
        return;
    }
    pieces->data = data;
    pieces->data[pieces->count++] = piece;
}

void lipsc_pieces_free(lipsc_pieces *pieces) {
    lipsc_text_free(&pieces->bytes);
    free(pieces->data);
    *pieces = (lipsc_pieces){0};
}

static void put_part(lipsc_pieces *pieces, const lipsc_piece *piece, size_t begin,
                     size_t end) {
    const size_t known = piece->origin < end ? piece->origin : end;
    lipsc_pieces_put(pieces, (lipsc_piece){.begin = piece->begin + begin,
                                           .len = end - begin,
                                           .origin = known > begin ? known - begin : 0});
}

/* A delimiter joins the part before it unless that is a delimiter too; of two delimiters in
 * a row the second stands alone. */
static void merge_with_previous(lipsc_pieces *pieces, const lipsc_piece *piece,
                                const lipsc_spans *spans) {
    size_t i = 0;
    while (i < spans->count) {
        size_t last = i;
        if (!spans->data[i].match && i + 1 < spans->count && spans->data[i + 1].match)
            last = i + 1;
        put_part(pieces, piece, spans->data[i].begin, spans->data[last].end);
        i = last + 1;
    }
}

/* A delimiter joins the part after it; of two in a row the first stands alone. */
static void merge_with_next(lipsc_pieces *pieces, const lipsc_piece *piece,
                            const lipsc_spans *spans) {
    size_t i = 0;
    while (i < spans->count) {
        size_t last = i;
        if (spans->data[i].match && i + 1 < spans->count && !spans->data[i + 1].match)
            last = i + 1;
        put_part(pieces, piece, spans->data[i].begin, spans->data[last].end);
        i = last + 1;
    }
}

static void join_alike(lipsc_pieces *pieces, const lipsc_piece *piece,
                       const lipsc_spans *spans) {
    size_t i = 0;
    while (i < spans->count) {
        size_t last = i;
        while (last + 1 < spans->count &&
               spans->data[last + 1].match == spans->data[i].match)
            last++;
        put_part(pieces, piece, spans->data[i].begin, spans->data[last].end);
        i = last + 1;
    }
}

void lipsc_pieces_put_split(lipsc_pieces *pieces, const lipsc_piece *piece,
                            const lipsc_spans *spans, lipsc_behavior behavior) {
    switch (behavior) {
    case LIPSC_REMOVED:
    case LIPSC_ISOLATED:
        for (size_t i = 0; i < spans->count; i++)
            if (behavior == LIPSC_ISOLATED || !spans->data[i].match)
                put_part(pieces, piece, spans->data[i].begin, spans->data[i].end);
        break;
    case LIPSC_MERGED_WITH_PREVIOUS:
        merge_with_previous(pieces, piece, spans);
        break;
    case LIPSC_MERGED_WITH_NEXT:
        merge_with_next(pieces, piece, spans);
        break;
    case LIPSC_CONTIGUOUS:
        join_alike(pieces, piece, spans);
        break;
    }
}
