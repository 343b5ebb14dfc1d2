/* pieces.h - a text on its way to tokens: a list of pieces, each a run of bytes or, where
 * an added token was found, already an id. */
#ifndef LIPSC_TOKEN_PIECES_H
#define LIPSC_TOKEN_PIECES_H

#include "token/pattern.h"
#include "token/text.h"

typedef struct {
    size_t begin, len; /* in the bytes of the list it belongs to */
    size_t origin;     /* how many of them stem from the first character of the input */
    int is_token;
    uint32_t id;
} lipsc_piece;

typedef struct {
    lipsc_text bytes; /* only ever grows, so pieces may share what they do not change */
    lipsc_piece *data;
    size_t count, room;
    int failed;
} lipsc_pieces;

/* Where the delimiters of a split go. */
typedef enum {
    LIPSC_REMOVED,
    LIPSC_ISOLATED,
    LIPSC_MERGED_WITH_PREVIOUS,
    LIPSC_MERGED_WITH_NEXT,
    LIPSC_CONTIGUOUS
} lipsc_behavior;

void lipsc_pieces_put(lipsc_pieces *pieces,
                      lipsc_piece piece); /* an empty one is dropped */
/* piece cut as spans say, offsets in which count from its beginning. */
void lipsc_pieces_put_split(lipsc_pieces *pieces, const lipsc_piece *piece,
                            const lipsc_spans *spans, lipsc_behavior behavior);
void lipsc_pieces_free(lipsc_pieces *pieces);

#endif
