/* bench_table.c - timings on standard output: a line for people, or a row, as soon as it is
 * measured. */
#include "bench_table.h"

#include <string.h>

#include "screen.h"

static void print_head(const lipsc_bench_row *row, unsigned parts, size_t repeats) {
    const cli_screen screen = cli_screen_open();
    char ranks[48] = "";
    if (parts & LIPSC_BENCH_RANKS)
        snprintf(ranks, sizeof ranks, "%zu ranks of ", row->ranks);
    cli_say(&screen,
            "Pairs of products (J, J^T) of a layer of GPT-2's size, medians of %zu: %s%d "
            "thread%s, %s, %zu direction%s of %zu window%s at once.",
            repeats, ranks, (int)row->threads, row->threads == 1 ? "" : "s",
            lipsc_cpu_isa(), row->block, row->block == 1 ? "" : "s", row->batch,
            row->batch == 1 ? "" : "s");
    if (parts & LIPSC_BENCH_RANKS)
        printf("\n%s%7s  %-6s  %-5s  %8s  %8s  %8s  %9s  %8s%s\n", screen.faint, "n",
               "mask", "dtype", "ranks", "threads", "of ideal", "predicted", "of model",
               screen.plain);
    else
        printf("\n%s%7s  %-6s  %-5s  %10s  %8s  %8s  %9s%s%s\n", screen.faint, "n", "mask",
               "dtype", "pair", "GFLOP/s", "of sgemm", "memory",
               parts & LIPSC_BENCH_FEATURES ? "  of plain" : "", screen.plain);
}

/* "1.25 ms", "2.10 s" */
static const char *pair_time(double ms, char text[CLI_NUMBER]) {
    char digits[CLI_NUMBER];
    snprintf(text, CLI_NUMBER, "%.20s %s",
             cli_digits(ms < 999.5 ? ms : 1e-3 * ms, 3, digits), ms < 999.5 ? "ms" : "s");
    return text;
}

static const char *percent(double share, char text[CLI_NUMBER]) {
    char digits[CLI_NUMBER];
    snprintf(text, CLI_NUMBER, "%.20s %%", cli_decimals(100.0 * share, 1, digits));
    return text;
}

static void print_line(const lipsc_bench_row *row, unsigned parts) {
    char pair[CLI_NUMBER], speed[CLI_NUMBER], share[CLI_NUMBER], memory[CLI_NUMBER];
    printf("%7zu  %-6s  %-5s  %10s  %8s  %8s  %9s", row->n, row->mask, row->dtype,
           pair_time(row->ms_per_pair, pair), cli_digits(row->gflops, 3, speed),
           percent(row->fraction, share), cli_bytes((double)row->peak_bytes, memory));
    if (parts & LIPSC_BENCH_FEATURES) printf("  %8s", percent(row->of_plain, share));
    putchar('\n');
}

static void print_shared(const lipsc_bench_row *row) {
    char ranks[CLI_NUMBER], threads[CLI_NUMBER], ideal[CLI_NUMBER], predicted[CLI_NUMBER],
        model[CLI_NUMBER];
    printf("%7zu  %-6s  %-5s  %8s  %8s  %8s  %9s  %8s\n", row->n, row->mask, row->dtype,
           pair_time(row->ranks_ms, ranks), pair_time(row->threads_ms, threads),
           percent(row->efficiency, ideal), pair_time(row->predicted_ms, predicted),
           percent(row->of_predicted, model));
}

static void print_sweep(const lipsc_bench_row *row) {
    const cli_screen screen = cli_screen_open();
    char ranks[CLI_NUMBER], threads[CLI_NUMBER], one[CLI_NUMBER], share[CLI_NUMBER],
        predicted[CLI_NUMBER];
    putchar('\n');
    cli_say(
        &screen,
        "A sweep of %zu cells of builtin:gpt2-nano, reading it included: %zu ranks take "
        "%s, one process with the threads of all %s (%s of ideal), each rank for itself "
        "%s, by which %s were predicted.",
        row->cells, row->ranks, pair_time(row->ranks_ms, ranks),
        pair_time(row->threads_ms, threads), percent(row->efficiency, share),
        pair_time(row->one_ms, one), pair_time(row->predicted_ms, predicted));
}

static void print_row(bench_table *t, const lipsc_bench_row *row) {
    const int shared = (t->parts & LIPSC_BENCH_RANKS) != 0;
    if (shared && !strcmp(row->work, "sweep")) {
        print_sweep(row);
    } else {
        if (!t->shown++) print_head(row, t->parts, t->repeats);
        if (shared)
            print_shared(row);
        else
            print_line(row, t->parts);
    }
    fflush(stdout);
}

void bench_table_begin(bench_table *t, const cli_command *self, const cli_common *common,
                       size_t repeats, unsigned parts) {
    t->people = common->format == LIPSC_FORMAT_TABLE;
    t->shown = 0;
    t->repeats = repeats;
    t->parts = parts;
    cli_rows_begin(&t->rows, self, common, LIPSC_LAYOUT_WIDE, lipsc_bench_fields(), parts);
}

void bench_table_row(bench_table *t, const lipsc_bench_row *row) {
    if (t->people) {
        print_row(t, row);
    } else {
        cli_rows_add(&t->rows, row);
        lipsc_table_flush(t->rows.table);
    }
}

/* Members of the JSON object behind the rows. */
#define BENCH_LIST(X)                                         \
    X(isa, TEXT, 0, 0, "", "instruction set of the products") \
    X(repeats, COUNT, 0, 0, "", "each figure is the median of so many")

typedef struct {
    BENCH_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field fields[] = {BENCH_LIST(LIPSC_FIELD_ENTRY)};

int bench_table_end(bench_table *t, int done) {
    if (t->people || !done) {
        lipsc_table_free(t->rows.table);
        return done ? CLI_DONE : CLI_FAILED;
    }
    lipsc_table_members(t->rows.table, CLI_FIELDS(fields),
                        &(record){lipsc_cpu_isa(), t->repeats});
    return cli_rows_end(&t->rows);
}
