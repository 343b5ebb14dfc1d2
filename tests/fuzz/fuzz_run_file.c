/* fuzz_run_file.c - any bytes as a run file.  What is read has rows of the fields that it
 * says, sound texts, and fits; each refusal has a sentence.  SQLite itself is not ours:
 * seeds are whole databases, and changes in them are hostile rows as well as damaged pages.
 */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "folder.h"
#include "lipscope/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lipsc_rows_file file;
    lipsc_error err = {0};
    folder_put("run.db", data, size);
    if (lipsc_rows_file_open(in_folder("run.db"), &file, &err)) {
        check_sentence(&err);
    } else {
        if (file.count && !file.rows) abort();
        if (!file.command || !file.created || !file.version || !file.settings) abort();
    }
    lipsc_rows_file_close(&file);
    return 0;
}
