/* bench_table.c - timings for people: a line as soon as it is measured. */
#include "bench_table.h"

#include "screen.h"

static void print_head(const lipsc_bench_row *row, unsigned parts, size_t repeats) {
    const cli_screen screen = cli_screen_open();
    cli_say(&screen,
            "Pairs of products (J, J^T) of a layer of GPT-2's size, medians of %zu: %d "
            "thread%s, %s, %zu direction%s of %zu window%s at once.",
            repeats, (int)row->threads, row->threads == 1 ? "" : "s", lipsc_cpu_isa(),
            row->block, row->block == 1 ? "" : "s", row->batch, row->batch == 1 ? "" : "s");
    printf("\n%s%7s  %-6s  %-5s  %10s  %8s  %8s  %9s%s%s%s\n", screen.faint, "n", "mask",
           "dtype", "pair", "GFLOP/s", "of sgemm", "memory",
           parts & LIPSC_BENCH_FEATURES ? "  of plain" : "",
           parts & LIPSC_BENCH_RANKS ? "  ranks  of ideal" : "", screen.plain);
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

void bench_table_row(const lipsc_bench_row *row, int first, unsigned parts,
                     size_t repeats) {
    char pair[CLI_NUMBER], speed[CLI_NUMBER], share[CLI_NUMBER], memory[CLI_NUMBER];
    if (first) print_head(row, parts, repeats);
    printf("%7zu  %-6s  %-5s  %10s  %8s  %8s  %9s", row->n, row->mask, row->dtype,
           pair_time(row->ms_per_pair, pair), cli_digits(row->gflops, 3, speed),
           percent(row->fraction, share), cli_bytes((double)row->peak_bytes, memory));
    if (parts & LIPSC_BENCH_FEATURES) printf("  %8s", percent(row->of_plain, share));
    if (parts & LIPSC_BENCH_RANKS)
        printf("  %5zu  %8s", row->ranks, percent(row->efficiency, share));
    putchar('\n');
    fflush(stdout);
}
