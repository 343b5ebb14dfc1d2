/* folder.h - removes the folder of a test with all that is in it. */
#ifndef LIPSC_TEST_FOLDER_H
#define LIPSC_TEST_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static inline int folder_drop(const char *folder) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

#endif
