/* clock.h - monotonic seconds. */
#ifndef LIPSC_CORE_CLOCK_H
#define LIPSC_CORE_CLOCK_H

double lipsc_seconds(void);

#endif
