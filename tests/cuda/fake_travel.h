/* fake_travel.h - whether rows of ranks arrive, for the plugin that is made on the CPU. */
#ifndef LIPSC_TESTS_FAKE_TRAVEL_H
#define LIPSC_TESTS_FAKE_TRAVEL_H

#include "backend/backend.h"

/* Every rank calls it; LIPSC_E_BACKEND with a sentence where they do not. */
lipsc_status fake_travel(const lipsc_share *share, lipsc_error *err);

#endif
