/* screen.h - what is printed for people: as wide as the terminal, numbers of few digits,
 * columns whose decimal points stand under each other.
 *
 *     const cli_screen screen = cli_screen_open();
 *     cli_grid *g = cli_grid_new(2, (const cli_grid_column[]){{"layer", CLI_RIGHT},
 *                                                             {"sigma", CLI_POINT}});
 *     cli_grid_text(g, "%zu", layer);
 *     cli_grid_number(g, sigma);
 *     status = cli_grid_print(&screen, g, 1);
 *     cli_grid_free(g);
 *
 * Colour is for terminals only, and nothing is said by it alone. */
#ifndef LIPSC_CLI_SCREEN_H
#define LIPSC_CLI_SCREEN_H

#include "args.h"

typedef struct {
    size_t width; /* columns: $COLUMNS, or those of the terminal, or 80 */
    const char *strong, *accent, *faint, *plain; /* escape sequences, or empty */
} cli_screen;

/* Of standard output.  No colour with NO_COLOR or TERM=dumb. */
cli_screen cli_screen_open(void);
/* Columns of what is behind a file descriptor. */
size_t cli_screen_width(int fd);

/* ---- Numbers ------------------------------------------------------------------------ */

enum { CLI_NUMBER = 32 };

/* `digits` significant ones: 0.315, 12.1, 8652, 1.04e+06; "-" for what is not finite. */
const char *cli_digits(double x, int digits, char text[CLI_NUMBER]);
/* Three of them, rounded up: what is below x is below the number printed. */
const char *cli_digits_up(double x, char text[CLI_NUMBER]);
/* `digits` of them, rounded down: what is above x is above the number printed. */
const char *cli_digits_down(double x, int digits, char text[CLI_NUMBER]);
/* `decimals` behind the point, and no -0.00. */
const char *cli_decimals(double x, int decimals, char text[CLI_NUMBER]);
/* "45 s", "12 min", "1.5 h". */
const char *cli_duration(double seconds, char text[CLI_NUMBER]);
/* "812 B", "1.11 MiB", "23.5 GiB". */
const char *cli_bytes(double bytes, char text[CLI_NUMBER]);

/* ---- Sentences ---------------------------------------------------------------------- */

/* A paragraph, broken where the screen ends, with a newline; words of other people are
 * made safe. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_say(const cli_screen *screen, const char *format, ...);

/* Words of `text` on lines of at most `width` columns, `end` behind each that is not the
 * last, `indent` spaces before each that is not the first; `used` columns are taken.  With
 * an `end`, as commands have it, an option stays with its value. */
void cli_put_words(FILE *to, const char *text, size_t width, size_t used, size_t indent,
                   const char *end);

/* ---- Grids -------------------------------------------------------------------------- */

typedef enum { CLI_LEFT, CLI_RIGHT, CLI_POINT } cli_align;

typedef struct {
    const char *name;
    cli_align align;
} cli_grid_column;

typedef struct cli_grid cli_grid;

/* NULL when memory is short, which the others take.  Names are copied. */
cli_grid *cli_grid_new(size_t count, const cli_grid_column *columns);
void cli_grid_free(cli_grid *grid);

/* The next cell, row after row; made safe. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_grid_text(cli_grid *grid, const char *format, ...);
void cli_grid_number(cli_grid *grid, double x); /* three digits */
void cli_grid_up(cli_grid *grid, double x);     /* of an upper bound */
void cli_grid_down(cli_grid *grid, double x);   /* of a lower bound  */
void cli_grid_decimals(cli_grid *grid, double x, int decimals);

/* Columns that do not fit follow in further blocks, which repeat the first `keep` of them;
 * a last column of words is broken instead.  LIPSC_E_NOMEM when a cell was lost. */
lipsc_status cli_grid_print(const cli_screen *screen, const cli_grid *grid, size_t keep);

#endif
