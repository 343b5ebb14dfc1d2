/* source.c - what the options of a source must not contradict, and what is said of it. */
#include "source.h"

#include <stdio.h>
#include <string.h>

int cli_source_check(const cli_command *self, const lipsc_source_options *o) {
    if (o->special && !o->text && !o->ids)
        return cli_wrong_use(self, "'--special' has no meaning without --text or --ids");
    if (o->tokenizer && !o->text && !o->special)
        return cli_wrong_use(self, "'--tokenizer' has no meaning without --text");
    return CLI_RUN;
}

void cli_source_say(const cli_command *self, const lipsc_source *source) {
    for (size_t i = 0; source && i < source->remark_count; i++)
        cli_note(self, "%s", source->remarks[i]);
}

void cli_utf8_say(const cli_command *self, const char *path, size_t malformed,
                  size_t size) {
    if (malformed)
        cli_note(
            self,
            "%s: not all of it is UTF-8: %zu of %zu bytes (%.2g %%) are read as U+FFFD",
            strcmp(path, "-") ? path : "standard input", malformed, size,
            100.0 * (double)malformed / (double)size);
}
