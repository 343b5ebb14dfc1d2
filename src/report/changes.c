/* changes.c - what differs between the first run of a page and each of the others. */
#include "report/changes.h"

#include "lipscope/compare.h"
#include "row/field.h"

/* 0, or -1 when memory is short. */
static int add_changes(size_t of, size_t count, const lipsc_change *changes, json_t *all) {
    for (size_t i = 0; i < count; i++) {
        json_t *change = lipsc_fields_json(lipsc_change_fields(), &changes[i], 0);
        if (!change || json_object_set_new(change, "of", json_integer((json_int_t)of)) ||
            json_array_append(all, change)) {
            json_decref(change);
            return -1;
        }
        json_decref(change);
    }
    return 0;
}

json_t *lipsc_report_changes(size_t count, const lipsc_rows_file *files) {
    json_t *all = json_array();
    for (size_t of = 1; all && of < count; of++) {
        size_t found = 0;
        lipsc_change *changes = NULL;
        const lipsc_status status =
            lipsc_rows_compare(files[0].count, files[0].rows, files[of].count,
                               files[of].rows, &found, &changes, NULL);
        if (status == LIPSC_E_NOMEM || (!status && add_changes(of, found, changes, all))) {
            json_decref(all);
            all = NULL;
        }
        lipsc_release(changes);
    }
    return all;
}
