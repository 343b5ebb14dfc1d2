/* where.c - where a study is computed: what `auto` takes, and what becomes of a study whose
 * GPU fails. */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "core/error.h"
#include "study/needs.h"
#include "study/team.h"

static double operations_left(const lipsc_study *study) {
    double operations = 0.0;
    for (size_t i = 0; i < study->cell_count; i++)
        if (!lipsc_cell_done(&study->cells[i]))
            operations += lipsc_study_pairs_of_cell * study->cells[i].cost;
    return operations;
}

/* A rank that follows takes the kind that rank 0 has. */
static lipsc_status take_kind(lipsc_study *study, const char *kind, lipsc_error *err) {
    lipsc_device *device = study->set.device;
    lipsc_error why = {.text = ""};
    const char *own = lipsc_device_name(device);
    if (lipsc_device_take(device, kind, lipsc_ranks_local(study->team->ranks), &why))
        return lipsc_fail(err, LIPSC_E_BACKEND, "rank 0 computes on %s: %.400s", kind,
                          why.text);
    const size_t length = strcspn(own, ":");
    if (length == strlen(kind) && !strncmp(own, kind, length)) return LIPSC_OK;
    return lipsc_fail(err, LIPSC_E_RANGE,
                      "it computes on %s and rank 0 on %s: give all the same --device", own,
                      kind);
}

/* Rank 0 alone knows what is left to do, and decides for all; each takes the GPU of its
 * number on its machine. */
lipsc_status lipsc_study_choose_device(lipsc_study *study, lipsc_error *err) {
    lipsc_device *device = study->set.device;
    const int leads = lipsc_team_leads(study);
    char kind[TEAM_KIND] = "";
    if (leads) {
        lipsc_device_choose(device, operations_left(study));
        const char *name = lipsc_device_name(device);
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(name, ":"), name);
    }
    lipsc_status status = lipsc_team_device(study, kind, err);
    if (!status && !leads) status = take_kind(study, kind, err);
    study->threads = lipsc_device_side_by_side(study->set.device);
    return status;
}

/* A failed device says why, where whoever was told of it could not. */
static void say_why(const lipsc_study *study, lipsc_status status, lipsc_error *err) {
    const char *why = lipsc_device_failure(study->set.device);
    if ((status == LIPSC_E_BACKEND || status == LIPSC_E_NOMEM) && why)
        lipsc_fail(err, status, "%s: %s", lipsc_device_name(study->set.device), why);
}

int lipsc_study_falls_back(lipsc_study *study, lipsc_status status, lipsc_error *err) {
    lipsc_device *device = study->set.device, *cpu;
    say_why(study, status, err);
    const int several = lipsc_ranks_count(study->set.ranks) > 1; /* one cannot alone */
    if ((status != LIPSC_E_BACKEND && status != LIPSC_E_NOMEM) || several ||
        !lipsc_device_was_chosen(device) ||
        lipsc_device_open("cpu", lipsc_device_threads(device), &cpu, NULL))
        return 0;
    study->fallback = cpu;
    if (lipsc_model_use(study->model, cpu, NULL)) return 0;
    study->set.device = cpu;
    study->threads = lipsc_device_side_by_side(cpu);
    lipsc_study_remark(study, "%s; the rest is computed on the cpu", err->text);
    return 1;
}
