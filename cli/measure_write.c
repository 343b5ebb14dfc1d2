/* measure_write.c - writes measures. */
#include "measure_write.h"

enum { OWN = 3, MORE = 8 };

lipsc_status cli_measure_write(const char *path, const lipsc_measure *mu,
                               const lipsc_st_item *more, size_t more_count,
                               const lipsc_st_note *notes, size_t note_count,
                               lipsc_error *err) {
    const size_t shape[2] = {mu->n, mu->d};
    lipsc_st_item items[OWN + MORE];
    size_t count = 0;
    items[count++] = (lipsc_st_item){"points", LIPSC_F64, 2, shape, mu->points};
    if (mu->weights)
        items[count++] = (lipsc_st_item){"weights", LIPSC_F64, 1, shape, mu->weights};
    if (mu->times)
        items[count++] = (lipsc_st_item){"times", LIPSC_F64, 1, shape, mu->times};
    for (size_t k = 0; k < more_count && k < MORE; k++) items[count++] = more[k];
    return lipsc_st_write(path, items, count, notes, note_count, err);
}
