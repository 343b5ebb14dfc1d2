/* where.c - where a study is computed: what `auto` takes, and what becomes of a study whose
 * GPU fails. */
#include "backend/backend.h"
#include "core/error.h"
#include "study/needs.h"
#include "study/study.h"

void lipsc_study_choose_device(lipsc_study *study) {
    double operations = 0.0;
    for (size_t i = 0; i < study->cell_count; i++)
        if (!lipsc_cell_done(&study->cells[i]))
            operations += lipsc_study_pairs_of_cell * study->cells[i].cost;
    lipsc_device_choose(study->set.device, operations);
    study->threads = lipsc_device_side_by_side(study->set.device);
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
    if ((status != LIPSC_E_BACKEND && status != LIPSC_E_NOMEM) ||
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
